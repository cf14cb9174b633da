"""The answers of FillMask: texts, their masks and what fills them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from bertscope.errors import InvalidReply
from bertscope.questions.cloze.candidates import ClozeItem
from bertscope.questions.cloze.fillings import Filling, read_filling
from bertscope.questions.cloze.tables import cloze_table
from bertscope.v1 import cloze_pb2
from bertscope.values.display import record
from bertscope.values.lazy import ReadOnUse, made
from bertscope.values.mask_predictions import FilledMask, read_mask
from bertscope.values.messages import provenance
from bertscope.values.results import Provenance, Results

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FilledText", "FilledTexts"]


@record
class FilledText(ReadOnUse):
    """The masks of one text."""

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
        masks = tuple(map(read_mask, message.masks))
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
        return cloze_table([self])

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
        return cloze_table(self)


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
