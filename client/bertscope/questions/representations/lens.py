"""The masked-LM head at every layer: the request of ReadLayers, its reply and its table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.questions.representations.lens_view import lens_html
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_lens_pb2 as lens_pb2
from bertscope.values import validation
from bertscope.values.choices import LensNormalisation
from bertscope.values.display import data_frame, record
from bertscope.values.messages import Asked, Interventions, Numbers, enum_name, head_interventions, provenance, token, values
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance, Results, Token
from bertscope.values.spans import Span, span
from bertscope.values.validation import TextOrPair

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EntryScore", "LayerReading", "LensInput", "LensPosition", "LensText", "LensTexts"]

PREFIX = "LENS_NORMALISATION_"
NORMALISATIONS = values(LensNormalisation, lens_pb2.LensNormalisation, PREFIX)


@record
class LensInput:
    """A text of which some parts are read.

    >>> LensInput("Paris is the capital of France.", [(0, 5)]).parts
    (Span(start=0, end=5, segment=0),)
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    parts: Sequence[tuple[int, int] | tuple[int, int, int]]
    """The parts to read: (start, end) or (start, end, segment), code points. A piece of the vocabulary belongs to the part that
    holds its first character."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text_or_pair("text", self.text)
        given = validation.not_empty("parts", [*validation.many("parts", self.parts, "tuples")])
        object.__setattr__(self, "parts", tuple(span(f"parts[{index}]", value) for index, value in enumerate(given)))


ToRead = TextOrPair | LensInput
"""A text, a pair, or a text of which some parts are read."""


@record
class EntryScore:
    """The score of a vocabulary entry at a position and a layer."""

    token: str
    """The entry as one would write it; a candidate as it was given."""
    piece_id: int
    """Its vocabulary index."""
    log_probability: float
    """Natural logarithm of its probability among the whole vocabulary."""
    rank: int
    """Rank among the whole vocabulary, 1 is the likeliest."""

    @property
    def probability(self) -> float:
        """Its probability, 0 to 1."""
        return math.exp(self.log_probability)


@record
class LayerReading:
    """The prediction of the masked-LM head from one state of a position."""

    layer: int
    """0 for the embeddings, k for the output of layer k - 1."""
    top: tuple[EntryScore, ...]
    """The likeliest entries, likeliest first."""
    entropy: float
    """Entropy of the distribution over the vocabulary, nats."""
    divergence: float
    """KL(last || this), nats; 0 for the last state."""
    candidates: tuple[EntryScore, ...]
    """The candidates, in the order of the call."""
    own: EntryScore | None
    """The piece that stands at the position; None for a mask."""


@record
class LensPosition:
    """One position of a text, read at every layer."""

    token_index: int
    """Position among the tokens that the model read, from 0."""
    token: Token
    """The token there."""
    mask: bool
    """True if it is a mask."""
    layers: tuple[LayerReading, ...]
    """The readings, one for each layer of the call."""

    def entropies(self) -> npt.NDArray[np.float64]:
        """Returns the entropy of each layer's distribution, nats: [layers]."""
        return np.array([reading.entropy for reading in self.layers])

    def divergences(self) -> npt.NDArray[np.float64]:
        """Returns KL(last || this) of each layer, nats: [layers]."""
        return np.array([reading.divergence for reading in self.layers])


@record
class LensText:
    """The positions of one text, read at every layer."""

    text: TextOrPair
    """The text or pair, as given."""
    positions: tuple[LensPosition, ...]
    """The positions that were read, in order."""
    layers: tuple[int, ...]
    """The states that were read: 0 for the embeddings, k for the output of layer k - 1."""
    normalisation: str
    """"none": the head got the states before the last as they are. "final": after the model's last normalisation."""
    tokens: int
    """Number of tokens that the model read, special tokens included."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    provenance: Provenance
    """Provenance of the readings."""

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each position and layer; columns as `LensTexts.to_pandas`."""
        return data_frame(lens_columns([self]))

    def _repr_html_(self) -> str:
        """Returns a heat map of words, layers by positions."""
        return lens_html([self])


class LensTexts(Results[LensText]):
    """The answers of one `read_layers` call, one for each text, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each position and layer: text (index), token_index, token, layer, prediction (the likeliest entry),
        probability, entropy, divergence, own_probability and own_rank (NaN and 0 for masks), and for each candidate
        "probability of X" and "rank of X". Needs the extra "pandas"."""
        return data_frame(lens_columns(self))

    def _repr_html_(self) -> str:
        """Returns a heat map of words for each text, layers by positions."""
        return lens_html(self)


def lens_columns(results: Iterable[LensText]) -> dict[str, list[Any]]:
    """Returns the columns of `LensTexts.to_pandas`; needs no pandas."""
    rows = list[dict[str, Any]]()
    for index, found in enumerate(results):
        for position in found.positions:
            for reading in position.layers:
                best, own = reading.top[0], reading.own
                row = {
                    "text": index,
                    "token_index": position.token_index,
                    "token": position.token.text,
                    "layer": reading.layer,
                    "prediction": best.token,
                    "probability": best.probability,
                    "entropy": reading.entropy,
                    "divergence": reading.divergence,
                    "own_probability": math.nan if own is None else own.probability,
                    "own_rank": 0 if own is None else own.rank,
                }
                for score in reading.candidates:
                    row |= {f"probability of {score.token}": score.probability, f"rank of {score.token}": score.rank}
                rows.append(row)
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def read_layers_request(
    *,
    model: str | Model | None,
    layers: Numbers | None,
    top_k: SupportsIndex | None,
    candidates: str | Iterable[str] | None,
    all_pieces: bool,
    normalisation: LensNormalisation | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> lens_pb2.ReadLayersRequest:
    """Returns the request of ReadLayers, without its inputs."""
    words = None if candidates is None else validation.not_empty("candidates", validation.texts("candidates", candidates))
    chosen = None if normalisation is None else validation.choice("normalisation", normalisation, NORMALISATIONS)
    return lens_pb2.ReadLayersRequest(
        model=model_name("model", model),
        layers=validation.uint32s("layers", layers),
        top_k=None if top_k is None else validation.uint32("top_k", top_k),
        candidates=words,
        all_pieces=validation.flag("all_pieces", all_pieces),
        normalisation=chosen or lens_pb2.LENS_NORMALISATION_UNSPECIFIED,
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def asked_readings(texts: ToRead | Iterable[ToRead]) -> Asked[lens_pb2.LensInput]:
    """Returns any number of texts. A list is checked at once, an iterator as it is read."""
    pair = isinstance(texts, tuple) and not isinstance(texts, validation.Many) and any(isinstance(one, str) for one in texts)
    if isinstance(texts, (str, LensInput)) or pair:
        texts = validation.Many([cast("ToRead", texts)])
    many = validation.many("inputs", texts, "texts")
    messages = (_message(f"inputs[{index}]", value) for index, value in enumerate(many))
    if isinstance(many, Sized):
        checked = list(messages)
        return Asked(iter(checked), len(checked))
    return Asked(messages, None)


def _message(field: str, value: object) -> lens_pb2.LensInput:
    given = value.text if isinstance(value, LensInput) else validation.text_or_pair(field, value)
    text, pair = (given, None) if isinstance(given, str) else given
    message = lens_pb2.LensInput(text=text, text_pair=pair)
    for start, end, segment in cast("tuple[Span, ...]", value.parts) if isinstance(value, LensInput) else ():
        message.spans.append(common_pb2.CharacterSpan(start=start, end=end, segment=segment))
    return message


def text_of_input(message: lens_pb2.LensInput) -> TextOrPair:
    """Returns the text or pair of a message."""
    return (message.text, message.text_pair) if message.HasField("text_pair") else message.text


def read_lens_texts(inputs: Sequence[lens_pb2.LensInput], response: lens_pb2.ReadLayersResponse) -> LensTexts:
    """Returns the answers, each with its text. Raises InvalidReply for a reply that breaks the contract."""
    if len(response.results) != len(inputs):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(inputs)} texts")
    source, layers = provenance(response.provenance), tuple(response.layers)
    return LensTexts(
        LensText(
            text=text_of_input(given),
            positions=tuple(_position(position, layers) for position in found.positions),
            layers=layers,
            normalisation=enum_name(lens_pb2.LensNormalisation, response.normalisation, PREFIX),
            tokens=found.tokens,
            truncated_tokens=found.truncated_tokens,
            provenance=source,
        )
        for given, found in zip(inputs, response.results, strict=True)
    )


def _position(message: lens_pb2.LensPosition, layers: Sequence[int]) -> LensPosition:
    if len(message.layers) != len(layers):
        raise InvalidReply(f"the server sent {len(message.layers)} layers of a position, and {len(layers)} were read")
    there = token(message.token)
    own = lens_pb2.VocabularyEntry(token=there.text, id=there.id or 0)
    readings = [_reading(layer, one, own, message.candidates) for layer, one in zip(layers, message.layers, strict=True)]
    return LensPosition(token_index=message.token_index, token=there, mask=message.mask, layers=tuple(readings))


def _reading(
    layer: int,
    message: lens_pb2.LensLayer,
    own: lens_pb2.VocabularyEntry,
    candidates: Sequence[lens_pb2.VocabularyEntry],
) -> LayerReading:
    if len(message.candidates) != len(candidates) or not message.top:
        raise InvalidReply("the server did not score every candidate at every layer, or sent no prediction")
    top = enumerate(message.top, start=1)
    return LayerReading(
        layer=layer,
        top=tuple(EntryScore(one.entry.token, one.entry.id, one.log_probability, rank) for rank, one in top),
        entropy=message.entropy,
        divergence=message.divergence,
        candidates=tuple(_score(entry, one) for entry, one in zip(candidates, message.candidates, strict=True)),
        own=_score(own, message.own) if message.HasField("own") else None,
    )


def _score(entry: lens_pb2.VocabularyEntry, message: lens_pb2.LensScore) -> EntryScore:
    return EntryScore(entry.token, entry.id, message.log_probability, message.rank)
