"""Names the head that finds most pairs of a relation, beside the baselines that it should beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertscope._display import data_frame, short_repr
from bertscope.intervals import Interval
from bertscope.results import Results

if TYPE_CHECKING:
    import pandas as pd

BEST_COLUMNS = [
    "relation", "pairs", "direction", "layer", "head", "accuracy", "low", "high",
    "offset", "offset_accuracy", "above_offset_low", "above_offset_high", "chance", "percentile",
]  # fmt: skip


@dataclass(frozen=True)
class BestHead:
    """The best head of a relation."""

    __repr__ = short_repr

    relation: str
    """Name of the relation."""
    pairs: int
    """Its pairs that were scored."""
    direction: str
    """"forward" if the head attends from the first word of a pair to the second, "backward" if from the second to the first."""
    layer: int
    """The head's layer, from 0."""
    head: int
    """The head, from 0."""
    accuracy: float
    """The share of pairs of which it attends most to the linked word."""
    interval: Interval | None
    """Interval of the accuracy; None without details of texts, or where these are too few or too alike."""
    offset: int
    """The fixed distance, in words, that finds most pairs in this direction."""
    offset_accuracy: float
    """The share of pairs that it finds."""
    above_offset: Interval | None
    """Interval of the head's accuracy minus that of the fixed distance, paired over the texts."""
    chance: float
    """The head's accuracy on other pairs of words that are as far apart."""
    percentile: float
    """The share of the other heads whose accuracy is lower, 0 to 100; equal ones count half."""

    @property
    def beats_offset(self) -> bool:
        """True if the head is better than the fixed distance, by the interval of the difference."""
        return self.above_offset is not None and self.above_offset.low > 0


class BestHeads(Results[BestHead]):
    """The best heads of relations, one for each."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each relation: relation, pairs, direction, layer, head, accuracy, low, high (its interval), offset,
        offset_accuracy, above_offset_low, above_offset_high, chance, percentile. Needs the extra "pandas"."""
        return data_frame(best_rows(self), BEST_COLUMNS)


def best_rows(heads: BestHeads) -> list[tuple[Any, ...]]:
    """Returns the rows of `BestHeads.to_pandas`; needs no pandas."""
    return [
        (
            *(best.relation, best.pairs, best.direction, best.layer, best.head, best.accuracy),
            *(best.interval or (None, None)),
            *(best.offset, best.offset_accuracy),
            *(best.above_offset or (None, None)),
            *(best.chance, best.percentile),
        )
        for best in heads
    ]
