"""Chooses the head and the fixed distance that find most pairs of a relation on some texts, and scores them on others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from bertscope.questions.attention.sums import Counts, PerHead
from bertscope.values.columns import named
from bertscope.values.display import record, short_repr
from bertscope.values.intervals import RESAMPLES, Interval, best_interval
from bertscope.values.results import Results
from bertscope.values.validation import choice

if TYPE_CHECKING:
    from bertscope.questions.attention.relation_scores import RelationScore

__all__ = ["BestHead", "BestHeads", "Direction", "TextScore"]

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


@record
class BestHead:
    """The best head of a relation: chosen on some texts, scored on others if there are any."""

    relation: str
    """Name of the relation."""
    pairs: int
    """Its pairs that the head is scored on."""
    direction: str
    """"forward" if the head attends from the first word of a pair to the second, "backward" if from the second to the first."""
    layer: int
    """The head's layer, from 0."""
    head: int
    """The head, from 0."""
    accuracy: float
    """The share of pairs of which it attends most to the linked word."""
    interval: Interval | None
    """Interval of the accuracy, 95 %; None without details of texts, or with fewer than five."""
    offset: int
    """The fixed distance, in words, that finds most of the pairs that the head was chosen on, in this direction."""
    offset_accuracy: float
    """The share of pairs that it finds, of those that the head is scored on."""
    above_offset: Interval | None
    """Interval of the head's accuracy minus that of the fixed distance, 95 %, paired over the texts."""
    chance: float
    """The head's accuracy on other pairs of words that are as far apart, over all texts."""
    percentile: float
    """The share of the other heads whose accuracy is lower, 0 to 100; equal ones count half."""
    chosen_on: ChosenOn
    """The texts that the head was chosen on: "half" of them, the other half being those it is scored on; "other" texts; the
    "same" texts, so that its accuracy is too high and its intervals are those of all heads at once."""
    chosen_pairs: int
    """The pairs that it was chosen on."""
    chosen_accuracy: float
    """The share of these that it finds: the highest of all heads, and too high for a claim."""

    @property
    def beats_offset(self) -> bool:
        """True if the head is better than the fixed distance, by the interval of the difference: of heads that are no better,
        about one in 40 is."""
        return self.above_offset is not None and self.above_offset.low > 0


class BestHeads(Results[BestHead]):
    """The best heads of relations, one for each."""

    __slots__ = ()

    _table = named(
        "relation",
        "pairs",
        "direction",
        "layer",
        "head",
        "accuracy",
        "low",
        "high",
        "offset",
        "offset_accuracy",
        "above_offset_low",
        "above_offset_high",
        "chance",
        "percentile",
        "chosen_on",
        "chosen_pairs",
        "chosen_accuracy",
    )

    def _rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each relation: relation, pairs, direction, layer, head, accuracy, low, high (its interval), offset,
        offset_accuracy, above_offset_low, above_offset_high, chance, percentile, chosen_on, chosen_pairs, chosen_accuracy."""
        return [
            (
                *(best.relation, best.pairs, best.direction, best.layer, best.head, best.accuracy),
                *(best.interval or (None, None)),
                *(best.offset, best.offset_accuracy),
                *(best.above_offset or (None, None)),
                *(best.chance, best.percentile, best.chosen_on, best.chosen_pairs, best.chosen_accuracy),
            )
            for best in self
        ]


def best_of(relation: str, split: Split, directions: Sequence[Direction], chance: Mapping[Direction, PerHead]) -> BestHead:
    """Returns the head of a relation that is best in one of some directions on the pairs to choose on, scored on the others;
    `chance` is the accuracy by chance of all heads."""
    chosen, scored = split.chosen, split.scored
    direction = chosen.better(directions)
    layer, head = chosen.best_head(direction)
    offset, correct = chosen.best_offset, scored.correct(direction)
    family = directions if split.chosen_on == "same" else ()
    return BestHead(
        relation=relation,
        pairs=scored.pairs,
        direction=direction,
        layer=layer,
        head=head,
        accuracy=scored.share(int(correct[layer, head])),
        interval=scored.interval(layer, head, direction, None, family),
        offset=offset if direction == "forward" else -offset,
        offset_accuracy=scored.share(split.found_by_offset()),
        above_offset=scored.interval(layer, head, direction, offset, family),
        chance=float(chance[direction][layer, head]),
        percentile=float(percentiles(correct)[layer, head]),
        chosen_on=split.chosen_on,
        chosen_pairs=chosen.pairs,
        chosen_accuracy=chosen.share(int(chosen.correct(direction)[layer, head])),
    )
