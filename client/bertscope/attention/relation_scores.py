"""Scores how heads attend from one word to a linked one: the reply of ScoreRelations, and the sum of several."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from bertscope._display import data_frame, table_html
from bertscope.attention.best_heads import BestHead, BestHeads
from bertscope.attention.sums import Counts, HeadSums, PerHead, divided
from bertscope.intervals import RESAMPLES, Interval, ratio_interval
from bertscope.merging import added_by_name, require_same, same_weights
from bertscope.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

Direction = Literal["forward", "backward"]
"""From the first word of a pair to the second, or from the second to the first."""
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


@dataclass(frozen=True, eq=False)
class DirectedSums:
    """Attention in one direction, summed."""

    largest_weight: HeadSums
    """The largest weight over the pairs of a text; Kovaleva et al. 2019, section 4.2."""
    largest_weight_by_chance: HeadSums
    """The same of other pairs of words that are as far apart."""
    correct: Counts
    """[layers, heads], the pairs of which the linked word is the one most attended to; Clark et al. 2019, section 4."""
    correct_by_chance: PerHead
    """[layers, heads], the same of other pairs of words that are as far apart."""

    def __repr__(self) -> str:
        return f"<DirectedSums of {self.largest_weight.texts} texts>"

    def __add__(self, other: DirectedSums) -> DirectedSums:
        return DirectedSums(
            self.largest_weight + other.largest_weight,
            self.largest_weight_by_chance + other.largest_weight_by_chance,
            self.correct + other.correct,
            self.correct_by_chance + other.correct_by_chance,
        )


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
        return f"<TextScore of {len(self.offsets)} pairs>"


@dataclass(frozen=True, eq=False, repr=False)
class RelationScore:
    """The scores of one relation, summed over texts."""

    relation: str
    """Its name."""
    pairs: int
    """Its pairs that were scored."""
    skipped_pairs: int
    """Its pairs that were not, because a word has no piece of its own."""
    chance_pairs: int
    """The pairs that have others to compare with, as far apart."""
    offsets: Mapping[int, int]
    """Pairs by distance: place of the second word minus that of the first, in words."""
    forward: DirectedSums
    """From the first word of a pair to the second."""
    backward: DirectedSums
    """From the second to the first."""
    details: tuple[TextScore, ...]
    """The scores of each text that has the relation; empty unless requested."""

    def __repr__(self) -> str:
        return f"<RelationScore: {self.relation}, {self.pairs} pairs>"

    def accuracy(self, direction: Direction = "forward") -> PerHead:
        """Returns [layers, heads]: the share of pairs of which a head attends most to the linked word; NaN without a pair."""
        return divided(self.sums(direction).correct, self.pairs)

    def chance(self, direction: Direction = "forward") -> PerHead:
        """Returns [layers, heads]: the accuracy that is expected of a head which attends to places and not to words: the share
        of other words whose most attended word is as far away."""
        return divided(self.sums(direction).correct_by_chance, self.chance_pairs)

    def largest_weight(self, direction: Direction = "forward") -> PerHead:
        """Returns [layers, heads]: the mean over texts of the largest weight between linked words."""
        return self.sums(direction).largest_weight.mean()

    def largest_weight_by_chance(self, direction: Direction = "forward") -> PerHead:
        """Returns [layers, heads]: the same of other pairs of words that are as far apart."""
        return self.sums(direction).largest_weight_by_chance.mean()

    def percentile(self, direction: Direction = "forward") -> PerHead:
        """Returns [layers, heads]: the share of the other heads whose accuracy is lower, 0 to 100; equal ones count half."""
        scores = self.accuracy(direction)
        values = np.sort(scores, axis=None)
        below = np.searchsorted(values, scores, "left")
        upto = np.searchsorted(values, scores, "right")
        return np.asarray(100 * (below + upto - 1) / 2 / max(1, values.size - 1))

    @property
    def best_offset(self) -> int:
        """The distance that finds most pairs when it is taken for all; the nearest one of several, then the positive one."""
        return max(self.offsets, key=lambda offset: (self.offsets[offset], -abs(offset), offset), default=0)

    @property
    def offset_accuracy(self) -> float:
        """The share of pairs at this distance; NaN without a pair."""
        return self.offsets.get(self.best_offset, 0) / self.pairs if self.pairs else math.nan

    def best_head(self, direction: Direction = "forward") -> tuple[int, int]:
        """Returns layer and head of the highest accuracy, the first one if several are equal."""
        correct = self.sums(direction).correct
        layer, head = np.unravel_index(int(correct.argmax()), correct.shape)
        return int(layer), int(head)

    def interval(
        self,
        layer: int,
        head: int,
        direction: Direction = "forward",
        *,
        above_offset: bool = False,
        confidence: float = 0.95,
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> Interval | None:
        """Returns the interval of a head's accuracy or, with `above_offset`, of its difference to the best fixed offset.

        It is a studentized bootstrap over the texts, paired for differences. None without `details`, with fewer than five texts
        or where texts don't differ. The best of many heads is chosen because its accuracy is high, which the interval does not
        take into account.
        """
        found = np.array([getattr(text, direction)[layer, head] for text in self.details], np.float64)
        pairs = np.array([len(text.offsets) for text in self.details], np.float64)
        bounds = (0.0, 1.0)
        if above_offset:
            found -= np.array([text.offsets.count(self.best_offset) for text in self.details], np.float64)
            bounds = (-1.0, 1.0)
        return ratio_interval(found, pairs, bounds, confidence=confidence, resamples=resamples, seed=seed)

    def best(self, direction: Direction | None = None) -> BestHead:
        """Returns the head of the highest accuracy, beside its baselines; of the better direction unless one is given."""
        better = max(DIRECTIONS, key=lambda each: int(self.sums(each).correct.max()))
        direction = direction or better
        layer, head = self.best_head(direction)
        return BestHead(
            relation=self.relation,
            pairs=self.pairs,
            direction=direction,
            layer=layer,
            head=head,
            accuracy=float(self.accuracy(direction)[layer, head]),
            interval=self.interval(layer, head, direction),
            offset=self.best_offset if direction == "forward" else -self.best_offset,
            offset_accuracy=self.offset_accuracy,
            above_offset=self.interval(layer, head, direction, above_offset=True),
            chance=float(self.chance(direction)[layer, head]),
            percentile=float(self.percentile(direction)[layer, head]),
        )

    def __add__(self, other: RelationScore) -> RelationScore:
        return RelationScore(
            relation=self.relation,
            pairs=self.pairs + other.pairs,
            skipped_pairs=self.skipped_pairs + other.skipped_pairs,
            chance_pairs=self.chance_pairs + other.chance_pairs,
            offsets=by_distance(Counter(self.offsets) + Counter(other.offsets)),
            forward=self.forward + other.forward,
            backward=self.backward + other.backward,
            details=self.details + other.details,
        )

    def sums(self, direction: Direction) -> DirectedSums:
        """Returns `forward` or `backward`. Raises ValueError for another direction."""
        if direction not in DIRECTIONS:
            raise ValueError(f"direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}")
        return self.forward if direction == "forward" else self.backward


@dataclass(frozen=True, eq=False, repr=False)
class RelationScores:
    """The scores of relations, by name: `scores["nsubj"]`. Compared by identity, as numpy arrays have no truth value."""

    layers: int
    """Layers of the model."""
    heads: int
    """Heads of a layer."""
    texts: int
    """The texts scored."""
    relations: Mapping[str, RelationScore]
    """The scores by the name of the relation; in the order given, or as the relations first came."""
    provenance: Provenance
    """Provenance of the numbers."""

    def __repr__(self) -> str:
        pairs = sum(relation.pairs for relation in self.relations.values())
        asked = f"{len(self.relations)} relations, {pairs} pairs, {self.texts} texts"
        return f"<RelationScores: {asked}, {self.layers} x {self.heads} heads, {self.provenance.model}>"

    def __getitem__(self, relation: str) -> RelationScore:
        if relation not in self.relations:
            raise KeyError(f"no text has the relation {relation!r}; there are {', '.join(self.relations)}")
        return self.relations[relation]

    @classmethod
    def merge(cls, parts: Iterable[RelationScores]) -> RelationScores:
        """Returns the scores of all texts of the parts, the same as of one call with them all; relations merge by name.

        Raises InvalidArgument without a part, FailedPrecondition for models with other weights.
        """
        parts = [*parts]
        source = same_weights(part.provenance for part in parts)
        require_same(parts, ("layers", "heads"))
        merged = added_by_name(part.relations for part in parts)
        return cls(parts[0].layers, parts[0].heads, sum(part.texts for part in parts), merged, source)

    def best_heads(self, direction: Direction | None = None) -> BestHeads:
        """Returns the best head of each relation that has a pair, beside its baselines; of the better direction unless one is
        given."""
        return BestHeads(relation.best(direction) for relation in self.relations.values() if relation.pairs)

    def combined_accuracy(self, direction: Direction | None = "backward") -> float:
        """Returns the share of all pairs that are found if each relation is looked up by its best head; NaN without a pair.

        Of dependencies, backward, it is the directed attachment score of a parser that knows the relation of each word: the
        word finds its governor. None takes the better direction of each relation, as `best_heads` does (Clark et al. 2019,
        section 4): the undirected score, in which either word may find the other.
        """
        directions = DIRECTIONS if direction is None else (direction,)
        found = sum(max(int(relation.sums(each).correct.max()) for each in directions) for relation in self.relations.values())
        pairs = sum(relation.pairs for relation in self.relations.values())
        return found / pairs if pairs else math.nan

    def combined_offset_accuracy(self) -> float:
        """Returns the same of the best fixed offset of each relation."""
        found = sum(relation.offsets.get(relation.best_offset, 0) for relation in self.relations.values())
        pairs = sum(relation.pairs for relation in self.relations.values())
        return found / pairs if pairs else math.nan

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each relation, direction, layer and head: relation, direction, layer, head, pairs, accuracy,
        chance, offset, offset_accuracy, percentile, largest_weight, largest_weight_by_chance. Needs the extra "pandas"."""
        return data_frame(relation_columns(self))


def relation_columns(scores: RelationScores) -> dict[str, npt.NDArray[Any]]:
    """Returns the columns of `RelationScores.to_pandas`; needs no pandas."""
    layer, head = np.indices((scores.layers, scores.heads)).reshape(2, -1)
    parts: list[dict[str, npt.NDArray[Any]]] = [
        {
            "relation": np.full(layer.size, relation.relation, object),
            "direction": np.full(layer.size, direction, object),
            "layer": layer,
            "head": head,
            "pairs": np.full(layer.size, relation.pairs),
            "accuracy": relation.accuracy(direction).reshape(-1),
            "chance": relation.chance(direction).reshape(-1),
            "offset": np.full(layer.size, relation.best_offset if direction == "forward" else -relation.best_offset),
            "offset_accuracy": np.full(layer.size, relation.offset_accuracy),
            "percentile": relation.percentile(direction).reshape(-1),
            "largest_weight": relation.largest_weight(direction).reshape(-1),
            "largest_weight_by_chance": relation.largest_weight_by_chance(direction).reshape(-1),
        }
        for relation in scores.relations.values()
        for direction in DIRECTIONS
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def by_distance(offsets: Mapping[int, int]) -> dict[int, int]:
    """Returns the pairs by distance, nearest first."""
    return {offset: offsets[offset] for offset in sorted(offsets, key=lambda offset: (abs(offset), -offset))}
