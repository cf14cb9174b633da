"""Chooses the head and the fixed distance that find most pairs of a relation on some texts, to be scored on others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from bertscope.questions.attention.sums import Counts
from bertscope.values.display import short_repr
from bertscope.values.intervals import RESAMPLES, Interval, best_interval
from bertscope.values.validation import choice

if TYPE_CHECKING:
    from bertscope.questions.attention.relation_scores import RelationScore

__all__ = ["Direction", "TextScore"]

Direction = Literal["forward", "backward"]
"""From the first word of a pair to the second, or from the second to the first."""
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

Selection = Literal["half", "same"]
"""The texts that heads are chosen on: every second one, the others being those that they are scored on, or all, on which they
are scored as well."""
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
ChosenOn = Literal["half", "other", "same"]
"""The texts that a head was chosen on: half of them, and scored on the other half; others than it is scored on; the same."""

FEWER_RESAMPLES = 5
"""An interval that holds for all heads at once takes a fifth of the resamples, because each is as much work as hundreds."""


@dataclass(frozen=True, eq=False)
class TextScore:
    """The scores of one relation in one text."""

    offsets: tuple[int, ...]
    """Distance of each scored pair, in words."""
    forward: npt.NDArray[np.uint16]
    """[layers, heads], the pairs found from their first word."""
    backward: npt.NDArray[np.uint16]
    """[layers, heads], the pairs found from their second word."""

    def __repr__(self) -> str:
        return short_repr(self)


@dataclass(frozen=True, eq=False)
class Part:
    """The pairs of one relation in some texts."""

    pairs: int
    """The pairs."""
    offsets: Mapping[int, int]
    """Pairs by distance, in words."""
    forward: Counts
    """[layers, heads], the pairs found from their first word."""
    backward: Counts
    """[layers, heads], the pairs found from their second word."""
    texts: Sequence[TextScore]
    """The scores of each text; empty without details."""

    @classmethod
    def of_texts(cls, texts: Sequence[TextScore]) -> Part:
        """Returns the pairs of some texts, of which there is at least one."""
        offsets = Counter(offset for text in texts for offset in text.offsets)
        forward = np.sum([text.forward for text in texts], axis=0, dtype=np.int64)
        backward = np.sum([text.backward for text in texts], axis=0, dtype=np.int64)
        return cls(offsets.total(), offsets, np.asarray(forward), np.asarray(backward), texts)

    @classmethod
    def of_all(cls, score: RelationScore) -> Part:
        """Returns the pairs of all texts of a relation."""
        return cls(score.pairs, score.offsets, score.forward.correct, score.backward.correct, score.details)

    def correct(self, direction: Direction) -> Counts:
        """Returns [layers, heads]: the pairs found in a direction."""
        return self.forward if direction == "forward" else self.backward

    def better(self, directions: Sequence[Direction]) -> Direction:
        """Returns the direction in which some head finds most pairs, the first one if several are equal."""
        return max(directions, key=lambda each: int(self.correct(each).max()))

    def best_head(self, direction: Direction) -> tuple[int, int]:
        """Returns layer and head of the highest accuracy, the first one if several are equal."""
        correct = self.correct(direction)
        layer, head = np.unravel_index(int(correct.argmax()), correct.shape)
        return int(layer), int(head)

    @property
    def best_offset(self) -> int:
        """The distance that finds most pairs when it is taken for all; the nearest one of several, then the positive one."""
        return max(self.offsets, key=lambda offset: (self.offsets[offset], -abs(offset), offset), default=0)

    def share(self, found: int) -> float:
        """Returns found pairs as a share of all; NaN without a pair."""
        return found / self.pairs if self.pairs else math.nan

    def interval(
        self,
        layer: int,
        head: int,
        direction: Direction,
        offset: int | None,
        family: Sequence[Direction] = (),
        *,
        confidence: float = 0.95,
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> Interval | None:
        """Returns the interval of a head's accuracy or, with an `offset`, of its difference to that; None without details or
        with fewer than five texts.

        With a `family` it holds for all heads of these directions at once, as is right for a head that was chosen on these
        texts; it takes a fifth of the resamples.
        """
        if not self.texts:
            return None
        pairs = np.array([len(text.offsets) for text in self.texts], np.float64)
        if family:
            heads = self.forward.size
            found = np.concatenate([self._found(each).reshape(len(pairs), -1) for each in family], axis=1)
            best = family.index(direction) * heads + int(np.ravel_multi_index((layer, head), self.forward.shape))
            resamples = max(1, resamples // FEWER_RESAMPLES)
        else:
            found, best = self._found(direction)[:, layer, head, None], 0
        bounds = (0.0, 1.0)
        if offset is not None:
            found = found - np.array([text.offsets.count(offset) for text in self.texts], np.float64)[:, None]
            bounds = (-1.0, 1.0)
        return best_interval(found, pairs, best, bounds, confidence=confidence, resamples=resamples, seed=seed)

    def _found(self, direction: Direction) -> npt.NDArray[np.float64]:
        return np.stack([getattr(text, direction) for text in self.texts]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Split:
    """The pairs that the head of a relation is chosen on, and those that it is scored on."""

    chosen: Part
    scored: Part
    chosen_on: ChosenOn

    @classmethod
    def of(cls, score: RelationScore, select: Selection | RelationScore) -> Split:
        """Returns the parts of a relation. Without details, or with the relation in one text alone, there are no halves: heads
        are chosen on the texts that they are scored on, as with "same". Raises InvalidArgument for another `select`."""
        whole = Part.of_all(score)
        if not isinstance(select, str):
            return cls(Part.of_all(select), whole, "other")
        halves = choice("select", select, {each: each for each in SELECTIONS}) == "half"
        if not halves or len(score.details) < 2:
            return cls(whole, whole, "same")
        return cls(Part.of_texts(score.details[::2]), Part.of_texts(score.details[1::2]), "half")

    def found(self, directions: Sequence[Direction]) -> int:
        """Returns the scored pairs that the chosen head finds, in the better of some directions."""
        direction = self.chosen.better(directions)
        return int(self.scored.correct(direction)[self.chosen.best_head(direction)])

    def found_by_offset(self) -> int:
        """Returns the scored pairs at the chosen distance."""
        return self.scored.offsets.get(self.chosen.best_offset, 0)


def percentiles(correct: Counts) -> npt.NDArray[np.float64]:
    """Returns [layers, heads]: the share of the other heads that find fewer pairs, 0 to 100; equal ones count half."""
    values = np.sort(correct, axis=None)
    below = np.searchsorted(values, correct, "left")
    upto = np.searchsorted(values, correct, "right")
    return np.asarray(100 * (below + upto - 1) / 2 / max(1, values.size - 1))
