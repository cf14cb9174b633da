"""Names the head that was chosen for a relation, beside the baselines that it should beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertscope.questions.attention.selection import ChosenOn, Direction, Split, percentiles
from bertscope.questions.attention.sums import PerHead
from bertscope.values.columns import named
from bertscope.values.display import record
from bertscope.values.intervals import Interval
from bertscope.values.results import Results

__all__ = ["BestHead", "BestHeads"]


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
