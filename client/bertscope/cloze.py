"""Cloze queries: the request of FillMask, its reply and its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex

from bertscope import _validation
from bertscope._display import data_frame, short_repr
from bertscope._lazy import ReadOnUse, made
from bertscope._messages import (
    Interventions,
    Numbers,
    head_interventions,
    provenance,
    values,
)
from bertscope.candidates import ClozeItem
from bertscope.choices import Decoding
from bertscope.errors import InvalidReply
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
PAIR_COLUMNS = ["text_pair", "segment", "next_sentence_probability"]
FILLING_COLUMNS = ["text", "order", "filled", "tokens", "pieces", "log_probability", "mean_log_probability"]

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
    segment: int = 0
    """The text of a pair that it is in: 0 is the first, 1 the second."""


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
    text_pair: str | None = None
    """The second text, as given; None without one."""
    next_sentence_probability: float | None = field(default_factory=lambda: None)
    """Probability that the second text follows the first, 0 to 1; None unless requested."""

    @staticmethod
    def _read(message: cloze_pb2.FilledText) -> dict[str, object]:
        masks = tuple(map(_filled_mask, message.masks))
        return {
            "masks": masks,
            "tokens": message.tokens,
            "truncated_tokens": message.truncated_tokens,
            "fillings": () if masks and masks[0].predictions else tuple(map(read_filling, message.fillings)),
            "next_sentence_probability": message.next_sentence_probability
            if message.HasField("next_sentence_probability")
            else None,
        }

    @property
    def filled(self) -> list[str]:
        """The text with each of its fillings in place of the masks."""
        return self._filled(self.text, 0)

    @property
    def filled_pair(self) -> list[str]:
        """The second text likewise; empty without one."""
        return [] if self.text_pair is None else self._filled(self.text_pair, 1)

    def _filled(self, text: str, segment: int) -> list[str]:
        places = [(number, mask) for number, mask in enumerate(self.masks) if mask.segment == segment]
        spans = [(mask.start, mask.end) for _, mask in places]
        return [filling.written(text, spans, [number for number, _ in places]) for filling in self.fillings]

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
            "filling_mean_log_probabilities": [filling.mean_log_probability for filling in self.fillings] or None,
            "next_sentence_probability": self.next_sentence_probability,
            "truncated_tokens": self.truncated_tokens,
        }


class FilledTexts(Results[FilledText]):
    """The answers of one `fill_mask` call, one for each text, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each prediction: text, mask (index in the text), start, end, order (from 1), token, probability,
        log_probability, candidate_probability, rank, and logit if logits were requested.

        With a joint decoding, a row for each filling: text, order (from 1), filled (the text with it in place), tokens and
        pieces (tuples with an entry for each mask), log_probability, mean_log_probability.

        Pairs add text_pair and next_sentence_probability, and segment (of the mask) or filled_pair. A pair without a mask has a
        row too, in which the columns of predictions are missing. Needs the extra "pandas"."""
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
    next_sentence: bool = False,
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
        next_sentence=_validation.flag("next_sentence", next_sentence),
    )


def read_cloze(items: Sequence[ClozeItem], response: cloze_pb2.FillMaskResponse) -> FilledTexts:
    """Returns the answers, each with its text or pair."""
    return read_filled_texts([item.text for item in items], response, [item.text_pair for item in items])


def read_filled_texts(
    texts: Sequence[str], response: cloze_pb2.FillMaskResponse, text_pairs: Sequence[str | None] | None = None
) -> FilledTexts:
    """Returns the answers, each with its text, and with its second text if there are any."""
    results = response.results
    if len(results) != len(texts):
        raise InvalidReply(f"the server answered {len(results)} of {len(texts)} texts")
    source = provenance(response.provenance)
    return FilledTexts(
        made(FilledText, text=text, text_pair=pair, provenance=source, _place=(results, index))
        for index, (text, pair) in enumerate(zip(texts, text_pairs or [None] * len(texts), strict=True))
    )


def _filled_mask(message: cloze_pb2.FilledMask) -> FilledMask:
    predictions = tuple(map(_prediction, messages := message.predictions))
    _read_logits(messages, predictions)
    return FilledMask(
        predictions=predictions,
        start=message.start,
        end=message.end,
        token_index=message.token_index,
        segment=message.segment,
    )


def _prediction(message: cloze_pb2.Prediction) -> Prediction:
    share: float | None = message.candidate_probability
    if not share and not message.HasField("candidate_probability"):
        share = None
    rank: int | None = message.rank
    if not rank and not message.HasField("rank"):
        rank = None
    return made(
        Prediction,
        token=message.token,
        pieces=tuple(message.pieces[:]),  # protobuf copies a slice at once, but iterates item by item
        piece_ids=tuple(message.piece_ids[:]),
        probability=message.probability,
        log_probability=message.log_probability,
        candidate_probability=share,
        rank=rank,
    )


def _read_logits(messages: Sequence[cloze_pb2.Prediction], predictions: Sequence[Prediction]) -> None:
    """Adds the logits, if there are any: all top-k predictions have them or none, and all candidates of one piece."""
    if predictions and (predictions[0].candidate_probability is not None or messages[0].HasField("logit")):
        for message, prediction in zip(messages, predictions, strict=True):
            if message.HasField("logit"):
                prediction.__dict__["logit"] = message.logit


def _table(results: Iterable[FilledText]) -> pd.DataFrame:
    """Returns a row for each prediction, or for each filling if there are any."""
    results = list(results)
    if any(result.fillings for result in results):
        return _fillings_table(results)
    table = data_frame([row for result in results for row in _rows(result)], [*PREDICTION_COLUMNS, *PAIR_COLUMNS, "logit"])
    table = table.astype({"candidate_probability": "float64", "rank": "Int64"})
    if any(result.text_pair is not None for result in results):
        numbers = dict.fromkeys(("mask", "start", "end", "order", "segment"), "Int64")
        shares = dict.fromkeys(("probability", "log_probability", "next_sentence_probability"), "float64")
        table = table.astype(numbers | shares)
    else:
        table = table.drop(columns=PAIR_COLUMNS)
    return table.drop(columns="logit") if table["logit"].isna().all() else table.astype({"logit": "float64"})


def _rows(result: FilledText) -> Iterator[tuple[object, ...]]:
    """Yields a row for each prediction of a text, and one for a pair without a mask."""
    for index, mask in enumerate(result.masks):
        for order, word in enumerate(mask.predictions, start=1):
            yield (
                *(result.text, index, mask.start, mask.end, order, word.token, word.probability, word.log_probability),
                *(word.candidate_probability, word.rank, result.text_pair, mask.segment),
                *(result.next_sentence_probability, word.logit),
            )
    if result.text_pair is not None and not result.masks:
        missing = (None,) * (len(PREDICTION_COLUMNS) - 1)
        yield (result.text, *missing, result.text_pair, None, result.next_sentence_probability, None)


def _fillings_table(results: Sequence[FilledText]) -> pd.DataFrame:
    """Returns a row for each filling, and one for a pair without a mask."""
    rows: list[tuple[object, ...]] = []
    for result in results:
        filled_pair: Sequence[str | None] = result.filled_pair or [None] * len(result.fillings)
        for order, (filling, filled, pair) in enumerate(zip(result.fillings, result.filled, filled_pair, strict=True), start=1):
            pieces = tuple(span.pieces for span in filling.spans)
            own = (order, filled, filling.tokens, pieces, filling.log_probability, filling.mean_log_probability)
            rows.append((result.text, *own, result.text_pair, pair, result.next_sentence_probability))
        if result.text_pair is not None and not result.masks:
            rows.append((result.text, *(None,) * 6, result.text_pair, None, result.next_sentence_probability))
    columns = ["text_pair", "filled_pair", "next_sentence_probability"]
    table = data_frame(rows, [*FILLING_COLUMNS, *columns])
    if all(result.text_pair is None for result in results):
        return table.drop(columns=columns)
    return table.astype({"order": "Int64", "next_sentence_probability": "float64"})
