"""Direct logit attribution: the request of AttributeLogits, its reply and its table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import repeat
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.v1 import representation_lens_pb2 as lens_pb2
from bertscope.values import validation
from bertscope.values.display import data_frame, record
from bertscope.values.messages import Asked, Interventions, head_interventions, provenance
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance, Results
from bertscope.values.tensors import matrix
from bertscope.values.validation import TextOrPair

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LogitAttribution", "LogitAttributions"]

Answers = tuple[str, str]
"""The answer whose logit counts, and the one whose logit is subtracted."""


@record(eq=False)
class LogitAttribution:
    """The terms of the logit of one answer minus that of another at a mask, by the part of the model that adds them, in logits
    (nats). Compared by identity, as numpy arrays have no truth value."""

    text: TextOrPair
    """The text or pair, as given."""
    answer: str
    """The answer whose logit counts."""
    other_answer: str
    """The answer whose logit is subtracted."""
    difference: float
    """The difference of the logits, as the model gives them; the terms sum to it, but for rounding."""
    heads: npt.NDArray[np.float32]
    """[layers, heads]: what each head adds, through the output projection without its bias."""
    feed_forward: npt.NDArray[np.float64]
    """[layers]: what each feed-forward block adds, with its biases."""
    attention_biases: npt.NDArray[np.float64]
    """[layers]: what the bias of each output projection adds."""
    normalisation_shifts: npt.NDArray[np.float64]
    """[layers]: what the shifts of each layer's normalisations add."""
    embeddings: float
    """The term of the embeddings, after their normalisation."""
    head_biases: float
    """The terms of the masked-LM head itself: its biases and the shift of its normalisation."""
    ablated: npt.NDArray[np.float32] | None
    """[layers, heads]: by how much the difference falls when a head is zeroed; None unless requested."""
    token_index: int
    """Position of the mask among the tokens that the model read, from 0."""
    tokens: int
    """Number of tokens that the model read, special tokens included."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    provenance: Provenance
    """Provenance of the numbers."""

    @property
    def total(self) -> float:
        """The sum of all terms."""
        arrays = (self.heads, self.feed_forward, self.attention_biases, self.normalisation_shifts)
        return sum(float(array.sum(dtype=np.float64)) for array in arrays) + self.embeddings + self.head_biases

    @property
    def biases(self) -> float:
        """The sum of all terms that no text changes the origin of: biases and shifts."""
        return float(self.attention_biases.sum() + self.normalisation_shifts.sum()) + self.head_biases

    def correlation(self) -> float:
        """Returns Pearson's correlation of what heads add with how much the difference falls without them; NaN where one of the
        two does not vary. Raises InvalidArgument if nothing was ablated."""
        if self.ablated is None:
            raise invalid_argument("ablate", "is False; ask with ablate=True")
        added, falls = self.heads.ravel().astype(np.float64), self.ablated.ravel().astype(np.float64)
        if not (added.std() and falls.std()):
            return math.nan
        return float(np.corrcoef(added, falls)[0, 1])

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each term; columns as `LogitAttributions.to_pandas`."""
        return data_frame(attribution_columns([self]))


class LogitAttributions(Results[LogitAttribution]):
    """The answers of one `attribute_logits` call, one for each text, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each term: text (index), part ("head", "feed_forward", "attention_bias", "normalisation_shift",
        "embeddings", "head_biases"), layer and head (-1 where there is none), added, and ablated (NaN where nothing was). Needs
        the extra "pandas"."""
        return data_frame(attribution_columns(self))


def attribution_columns(results: Iterable[LogitAttribution]) -> dict[str, list[Any]]:
    """Returns the columns of `LogitAttributions.to_pandas`; needs no pandas."""
    names = ("text", "part", "layer", "head", "added", "ablated")
    rows = [(index, *row) for index, found in enumerate(results) for row in _rows(found)]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in names}


def _rows(found: LogitAttribution) -> Iterator[tuple[str, int, int, float, float]]:
    for (layer, head), added in np.ndenumerate(found.heads):
        yield "head", layer, head, float(added), math.nan if found.ablated is None else float(found.ablated[layer, head])
    for part, values in (
        ("feed_forward", found.feed_forward),
        ("attention_bias", found.attention_biases),
        ("normalisation_shift", found.normalisation_shifts),
    ):
        yield from ((part, layer, -1, float(value), math.nan) for layer, value in enumerate(values))
    yield "embeddings", -1, -1, found.embeddings, math.nan
    yield "head_biases", -1, -1, found.head_biases, math.nan


def attribute_logits_request(
    *,
    model: str | Model | None,
    ablate: bool,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> lens_pb2.AttributeLogitsRequest:
    """Returns the request of AttributeLogits, without its inputs."""
    return lens_pb2.AttributeLogitsRequest(
        model=model_name("model", model),
        ablate=validation.flag("ablate", ablate),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def asked_attributions(
    texts: TextOrPair | Iterable[TextOrPair], answers: Answers | Iterable[Answers], mask: SupportsIndex | None
) -> Asked[lens_pb2.AttributedInput]:
    """Returns any number of texts, each with its answers. A list is checked at once, an iterator as it is read."""
    number = None if mask is None else validation.uint32("mask", mask)
    if isinstance(texts, Sized):
        texts = validation.texts_or_pairs("inputs", texts)
    many = validation.many("inputs", texts, "texts")
    same = isinstance(answers, (tuple, list)) and len(answers) == 2 and all(isinstance(one, str) for one in answers)
    pairs = repeat(answers) if same else iter(validation.many("answers", answers, "tuples of two words"))
    messages = _messages(many, pairs, number, same=same)
    if isinstance(many, Sized):
        checked = list(messages)
        return Asked(iter(checked), len(checked))
    return Asked(messages, None)


def _messages(
    texts: Iterable[object], answers: Iterator[object], mask: int | None, *, same: bool
) -> Iterator[lens_pb2.AttributedInput]:
    nothing = object()
    for index, value in enumerate(texts):
        given = next(answers, nothing)
        if given is nothing:
            raise invalid_argument(
                "answers", f"has {index} pairs and there are more texts; give one pair, or one for each text"
            )
        words = validation.pair(f"answers[{index}]", given, "(answer, other answer)")
        first, second = (validation.text(f"answers[{index}]", word) for word in words)
        text = validation.text_or_pair(f"inputs[{index}]", value)
        one, pair = (text, None) if isinstance(text, str) else text
        yield lens_pb2.AttributedInput(text=one, text_pair=pair, answer=first, other_answer=second, mask=mask)
    if not same and next(answers, nothing) is not nothing:
        raise invalid_argument("answers", "has more pairs than there are texts; give one pair, or one for each text")


def text_of_attributed(message: lens_pb2.AttributedInput) -> TextOrPair:
    """Returns the text or pair of a message."""
    return (message.text, message.text_pair) if message.HasField("text_pair") else message.text


def read_attributions(
    inputs: Sequence[lens_pb2.AttributedInput], response: lens_pb2.AttributeLogitsResponse
) -> LogitAttributions:
    """Returns the answers, each with its text. Raises InvalidReply for a reply that breaks the contract."""
    if len(response.results) != len(inputs):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(inputs)} texts")
    source = provenance(response.provenance)
    return LogitAttributions(_attribution(*both, source) for both in zip(inputs, response.results, strict=True))


def _attribution(given: lens_pb2.AttributedInput, message: lens_pb2.LogitAttribution, source: Provenance) -> LogitAttribution:
    heads = matrix(message.heads)
    ablated = matrix(message.ablated) if message.HasField("ablated") else None
    by_layer = [np.array(values) for values in (message.feed_forward, message.attention_biases, message.normalisation_shifts)]
    if any(len(values) != len(heads) for values in by_layer) or (ablated is not None and ablated.shape != heads.shape):
        raise InvalidReply("the server sent terms of other layers or heads")
    return LogitAttribution(
        text=text_of_attributed(given),
        answer=message.answer.token,
        other_answer=message.other_answer.token,
        difference=message.difference,
        heads=heads,
        feed_forward=by_layer[0],
        attention_biases=by_layer[1],
        normalisation_shifts=by_layer[2],
        embeddings=message.embeddings,
        head_biases=message.head_biases,
        ablated=ablated,
        token_index=message.token_index,
        tokens=message.tokens,
        truncated_tokens=message.truncated_tokens,
        provenance=source,
    )
