"""Joint fillings of masks: what FillMask chooses for all masks of a text together."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.v1 import cloze_pb2
from bertscope.values.display import record
from bertscope.values.messages import read

__all__ = ["FilledSpan", "Filling"]


@record
class FilledSpan:
    """The vocabulary entries in place of one mask."""

    token: str
    """The entries as one would write them together."""
    pieces: tuple[str, ...]
    """The vocabulary entries."""
    piece_ids: tuple[int, ...]
    """Their vocabulary indices."""
    log_probabilities: tuple[float, ...]
    """Natural logarithm of the probability of each, with those chosen before it in place and all later ones masked."""
    steps: tuple[int, ...]
    """When each was chosen, counted over the text's masks from 0."""


@record
class Filling:
    """One way to fill all masks of a text."""

    spans: tuple[FilledSpan, ...]
    """The entries in place of each mask, in the order of the text."""
    log_probability: float
    """Sum over all entries of the natural logarithms of their probabilities. It depends on the order of filling: it scores a
    filling, and is no probability of the text."""
    mean_log_probability: float
    """The mean over entries, by which fillings of different lengths compare."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The words in place of the masks."""
        return tuple(span.token for span in self.spans)

    def written(self, text: str, masks: Sequence[tuple[int, int]], numbers: Sequence[int] | None = None) -> str:
        """Returns a text with these words in place of its masks, of which the first and one past the last code point are given,
        and their numbers unless they are all masks."""
        tokens = self.tokens if numbers is None else [self.tokens[number] for number in numbers]
        for (start, end), token in sorted(zip(masks, tokens, strict=True), reverse=True):
            text = text[:start] + token + text[end:]
        return text


def read_filling(message: cloze_pb2.Filling) -> Filling:
    """Returns one filling of a reply."""
    return read(Filling, message, spans=tuple(read(FilledSpan, span) for span in message.spans))
