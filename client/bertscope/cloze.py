"""Cloze queries: the request of FillMask, its reply and its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from bertscope import _validation
from bertscope._display import data_frame, short_repr
from bertscope._lazy import ReadOnUse, made
from bertscope._messages import (
    Asked,
    Interventions,
    Numbers,
    asked_texts,
    head_interventions,
    provenance,
    values,
    with_items,
)
from bertscope.choices import Decoding
from bertscope.errors import InvalidReply, invalid_argument
from bertscope.fillings import Filling, read_filling
from bertscope.models import Model, model_name
from bertscope.results import Provenance, Results
from bertscope.v1 import cloze_pb2

if TYPE_CHECKING:
    import pandas as pd

PREDICTION_COLUMNS = [
    "text", "mask", "start", "end", "order", "token",
    "probability", "log_probability", "candidate_probability", "rank",
]  # fmt: skip
FILLING_COLUMNS = ["text", "order", "filled", "tokens", "pieces", "log_probability", "mean_log_probability"]

TextAndCandidates = tuple[str, list[str]]
DECODINGS = values(Decoding, cloze_pb2.MaskDecoding, "MASK_DECODING_")


@dataclass(frozen=True)
class Prediction:
    """One way to fill a mask."""

    __repr__ = short_repr

    token: str
    """The word as one would write it; a candidate as it was given."""
    pieces: tuple[str, ...]
    """Its vocabulary entries."""
    piece_ids: tuple[int, ...]
    """Their vocabulary indices."""
    probability: float
    """Among the whole vocabulary, 0 to 1; with several pieces, the product over as many masks."""
    log_probability: float
    """Natural logarithm of the probability."""
    candidate_probability: float | None
    """Share of this candidate among all candidates, 0 to 1; None for top-k predictions."""
    rank: int | None
    """Rank among the whole vocabulary, 1 is the likeliest; None for a candidate of several pieces."""
    logit: float | None = None
    """Score before the softmax; None unless requested, and for a candidate of several pieces."""


@dataclass(frozen=True)
class FilledMask:
    """One mask and its predictions."""

    __repr__ = short_repr

    predictions: tuple[Prediction, ...]
    """Likeliest first."""
    start: int
    """First code point of the mask in the text."""
    end: int
    """One past its last code point."""
    token_index: int
    """Position among the tokens that the model read, from 0."""


@dataclass(frozen=True)
class FilledText(ReadOnUse):
    """The masks of one text."""

    __repr__ = short_repr

    text: str
    """The text, as given."""
    masks: tuple[FilledMask, ...]
    """The masks in their order in the text."""
    tokens: int
    """Number of tokens that the model read, special tokens included."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    provenance: Provenance
    """Provenance of the predictions."""
    fillings: tuple[Filling, ...] = field(default_factory=tuple)
    """The fillings of all masks, likeliest first; empty where the masks are independent."""

    @staticmethod
    def _read(message: cloze_pb2.FilledText) -> dict[str, object]:
        masks, fillings = tuple(map(_filled_mask, message.masks)), message.fillings
        return {
            "masks": masks,
            "tokens": message.tokens,
            "truncated_tokens": message.truncated_tokens,
            "fillings": tuple(map(read_filling, fillings)) if fillings else (),
        }

    @property
    def filled(self) -> list[str]:
        """The text with each of its fillings in place of the masks."""
        return [filling.written(self.text, [(mask.start, mask.end) for mask in self.masks]) for filling in self.fillings]

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each prediction or filling; columns as `FilledTexts.to_pandas`."""
        return _table([self])

    def to_row(self) -> dict[str, Any]:
        """Returns the columns of `write_items`: lists of the predictions of each mask, of the joint fillings of all masks, and
        the tokens that were cut away."""
        masks = [mask.predictions for mask in self.masks]
        shares = [[prediction.candidate_probability for prediction in mask] for mask in masks]
        logits = [[prediction.logit for prediction in mask] for mask in masks]
        return {
            "tokens": [[prediction.token for prediction in mask] for mask in masks],
            "probabilities": [[prediction.probability for prediction in mask] for mask in masks],
            "log_probabilities": [[prediction.log_probability for prediction in mask] for mask in masks],
            "candidate_probabilities": None if shares == [[None] * len(mask) for mask in masks] else shares,
            "ranks": [[prediction.rank for prediction in mask] for mask in masks],
            "logits": None if logits == [[None] * len(mask) for mask in masks] else logits,
            "fillings": [filling.tokens for filling in self.fillings] or None,
            "filling_log_probabilities": [filling.log_probability for filling in self.fillings] or None,
            "truncated_tokens": self.truncated_tokens,
        }


class FilledTexts(Results[FilledText]):
    """The answers of one `fill_mask` call, one for each text, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each prediction: text, mask (index in the text), start, end, order (from 1), token, probability,
        log_probability, candidate_probability, rank, and logit if logits were requested.

        With a joint decoding, a row for each filling: text, order (from 1), filled (the text with it in place), tokens and
        pieces (tuples with an entry for each mask), log_probability, mean_log_probability. Needs the extra "pandas"."""
        return _table(self)


def fill_mask_request(
    *,
    model: str | Model | None,
    top_k: SupportsIndex | None,
    candidates: str | Iterable[str] | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
    decoding: Decoding | None = None,
    beam_width: SupportsIndex | None = None,
    max_pieces: SupportsIndex | None = None,
    piece_ids: Numbers | None = None,
    logits: bool = False,
) -> cloze_pb2.FillMaskRequest:
    """Returns the request of FillMask, without its texts."""
    words = None if candidates is None else _validation.not_empty("candidates", _validation.texts("candidates", candidates))
    return cloze_pb2.FillMaskRequest(
        model=model_name("model", model),
        top_k=None if top_k is None else _validation.uint32("top_k", top_k),
        candidates=words,
        interventions=head_interventions(interventions),
        reference_texts=_validation.texts("reference_texts", reference_texts),
        truncate=_validation.flag("truncate", truncate),
        decoding=cloze_pb2.MASK_DECODING_UNSPECIFIED
        if decoding is None
        else _validation.choice("decoding", decoding, DECODINGS),
        beam_width=None if beam_width is None else _validation.uint32("beam_width", beam_width),
        max_pieces=None if max_pieces is None else _validation.uint32("max_pieces", max_pieces),
        piece_ids=_validation.uint32s("piece_ids", piece_ids),
        logits=_validation.flag("logits", logits),
    )


def asked_candidates(texts: str | Iterable[str], candidates: Iterable[Iterable[str]]) -> Asked[TextAndCandidates]:
    """Returns texts, each with its candidates, read as they are needed."""
    asked = asked_texts(texts)
    lists = _validation.many(field := "candidates_per_text", candidates, "lists of strings, one for each text")
    total = asked.total if isinstance(lists, Sized) else None  # None: both are read to their ends
    if total is not None and isinstance(lists, Sized) and len(lists) != total:
        raise invalid_argument(field, f"has {len(lists)} lists for {total} texts; give one for each")
    return Asked(_paired(asked.items, iter(lists)), total)


def _paired(texts: Iterator[str], lists: Iterator[object]) -> Iterator[TextAndCandidates]:
    """Yields each text with its candidates."""
    ended = object()
    for index in count():
        text, words = next(texts, None), next(lists, ended)
        if text is None and words is ended:
            return
        if text is None or words is ended:
            raise invalid_argument("candidates_per_text", "has not one list for each text")
        field = f"candidates_per_text[{index}]"
        if isinstance(words, str):
            raise invalid_argument(field, "must be a list of strings, not str")
        yield text, _validation.texts(field, words)  # type: ignore[arg-type]  # it checks that


def with_candidates(request: cloze_pb2.FillMaskRequest, items: Sequence[TextAndCandidates]) -> cloze_pb2.FillMaskRequest:
    """Returns the request about some texts, each with its candidates."""
    result = with_items(request, "texts", [text for text, _ in items])
    result.text_candidates.extend(cloze_pb2.CandidateList(words=words) for _, words in items)
    return result


def read_with_candidates(items: Sequence[TextAndCandidates], response: cloze_pb2.FillMaskResponse) -> FilledTexts:
    """Returns the answers, each with its text."""
    return read_filled_texts([text for text, _ in items], response)


def read_filled_texts(texts: Sequence[str], response: cloze_pb2.FillMaskResponse) -> FilledTexts:
    """Returns the answers, each with its text."""
    results = response.results
    if len(results) != len(texts):
        raise InvalidReply(f"the server answered {len(results)} of {len(texts)} texts")
    source = provenance(response.provenance)
    return FilledTexts(
        made(FilledText, text=text, provenance=source, _place=(results, index)) for index, text in enumerate(texts)
    )


def _filled_mask(message: cloze_pb2.FilledMask) -> FilledMask:
    return FilledMask(
        predictions=tuple(map(_prediction, message.predictions)),
        start=message.start,
        end=message.end,
        token_index=message.token_index,
    )


def _prediction(message: cloze_pb2.Prediction) -> Prediction:
    share: float | None = message.candidate_probability
    if not share and not message.HasField("candidate_probability"):
        share = None
    rank: int | None = message.rank
    if not rank and not message.HasField("rank"):
        rank = None
    found = made(
        Prediction,
        token=message.token,
        pieces=tuple(message.pieces[:]),  # protobuf copies a slice at once, but iterates item by item
        piece_ids=tuple(message.piece_ids[:]),
        probability=message.probability,
        log_probability=message.log_probability,
        candidate_probability=share,
        rank=rank,
    )
    if message.HasField("logit"):
        found.__dict__["logit"] = message.logit
    return found


def _table(results: Iterable[FilledText]) -> pd.DataFrame:
    """Returns a row for each prediction, or for each filling if there are any."""
    results = list(results)
    if any(result.fillings for result in results):
        return _fillings_table(results)
    rows = [
        (
            *(result.text, index, mask.start, mask.end, order, prediction.token),
            *(prediction.probability, prediction.log_probability, prediction.candidate_probability, prediction.rank),
        )
        for result in results
        for index, mask in enumerate(result.masks)
        for order, prediction in enumerate(mask.predictions, start=1)
    ]
    table = data_frame(rows, PREDICTION_COLUMNS).astype({"candidate_probability": "float64", "rank": "Int64"})
    logits = [word.logit for result in results for mask in result.masks for word in mask.predictions]
    if any(logit is not None for logit in logits):
        table["logit"] = np.array(logits, dtype=np.float64)
    return table


def _fillings_table(results: Iterable[FilledText]) -> pd.DataFrame:
    """Returns a row for each filling."""
    rows = [
        (
            *(result.text, order, filled, filling.tokens, tuple(span.pieces for span in filling.spans)),
            *(filling.log_probability, filling.mean_log_probability),
        )
        for result in results
        for order, (filling, filled) in enumerate(zip(result.fillings, result.filled, strict=True), start=1)
    ]
    return data_frame(rows, FILLING_COLUMNS)
