"""Scores how heads attend from one word to a linked one: the reply of ScoreRelations, and the sum of several."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.questions.attention.best_heads import BestHead, BestHeads, best_of
from bertscope.questions.attention.selection import (
    DIRECTIONS,
    ChosenOn,
    Direction,
    Part,
    Selection,
    Split,
    TextScore,
    percentiles,
)
from bertscope.questions.attention.sums import Counts, HeadSums, PerHead, divided
from bertscope.values.display import data_frame, table_html
from bertscope.values.intervals import RESAMPLES, Interval
from bertscope.values.merging import added_by_name, require_same, same_weights
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DirectedSums", "RelationScore", "RelationScores"]


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
        return percentiles(self.sums(direction).correct)

    @property
    def best_offset(self) -> int:
        """The distance that finds most pairs when it is taken for all; the nearest one of several, then the positive one."""
        return Part.of_all(self).best_offset

    @property
    def offset_accuracy(self) -> float:
        """The share of pairs at this distance; NaN without a pair."""
        return self.offsets.get(self.best_offset, 0) / self.pairs if self.pairs else math.nan

    def best_head(self, direction: Direction = "forward") -> tuple[int, int]:
        """Returns layer and head of the highest accuracy on all texts, the first one if several are equal."""
        return Part.of_all(self).best_head(self._checked(direction))

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
        """Returns the interval of a head's accuracy or, with `above_offset`, of its difference to the best fixed offset, on all
        texts.

        It is a studentized bootstrap over the texts, paired for differences. None without `details` or with fewer than five
        texts. It is right for a head that is named beforehand; `best` has intervals of a head that is chosen.
        """
        offset = self.best_offset if above_offset else None
        whole, direction = Part.of_all(self), self._checked(direction)
        return whole.interval(layer, head, direction, offset, confidence=confidence, resamples=resamples, seed=seed)

    def best(self, direction: Direction | None = None, *, select: Selection | RelationScore = "half") -> BestHead:
        """Returns the head that finds most pairs of some texts, and how many it finds of others, beside its baselines; of the
        better direction unless one is given.

        Head, direction and fixed offset are chosen on every second text with the relation, the first, third and so on, and
        scored on the others; with the scores of other texts as `select`, on those, and scored on all of these. With "same",
        without `details` or with one text they are chosen and scored on the same texts: then accuracies are too high, and
        the intervals hold for all heads at once (max-T).
        """
        directions = DIRECTIONS if direction is None else (self._checked(direction),)
        return best_of(self.relation, Split.of(self, select), directions, {each: self.chance(each) for each in directions})

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
        return self.forward if self._checked(direction) == "forward" else self.backward

    @staticmethod
    def _checked(direction: Direction) -> Direction:
        if direction not in DIRECTIONS:
            raise ValueError(f"direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}")
        return direction


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

    def best_heads(self, direction: Direction | None = None, *, select: Selection | RelationScores = "half") -> BestHeads:
        """Returns the best head of each relation that has a pair, beside its baselines, as `RelationScore.best` does; of the
        better direction unless one is given.

        With scores of other texts as `select`, those choose; relations without a pair there are chosen on a half of these.
        Raises FailedPrecondition for scores of a model with other weights.
        """
        scored = [relation for relation in self.relations.values() if relation.pairs]
        return BestHeads(relation.best(direction, select=self._select(relation, select)) for relation in scored)

    def chosen_on(self, select: Selection | RelationScores = "half") -> ChosenOn:
        """Returns the texts that heads are chosen on for `combined_accuracy`: "same" if no relation has halves."""
        found = {split.chosen_on for split in self._splits(select)}
        return next(each for each in ("other", "half", "same") if each in found or each == "same")

    def combined_pairs(self, select: Selection | RelationScores = "half") -> int:
        """Returns the pairs that `combined_accuracy` is a share of."""
        return sum(split.scored.pairs for split in self._splits(select))

    def combined_accuracy(
        self, direction: Direction | None = "backward", *, select: Selection | RelationScores = "half"
    ) -> float:
        """Returns the share of pairs that are found if each relation is looked up by its best head; NaN without a pair.

        Heads are chosen as in `best_heads`: on one half of the texts, and the share is that of the other half, without the
        relations that only one text has. Of dependencies, backward, it is the directed attachment score of a parser that
        knows the relation of each word: the word finds its governor. None takes the better direction of each relation (Clark
        et al. 2019, section 4): the undirected score, in which either word may find the other.
        """
        directions = DIRECTIONS if direction is None else (direction,)
        splits = self._splits(select)
        return _share((split.found(directions) for split in splits), splits)

    def combined_offset_accuracy(self, *, select: Selection | RelationScores = "half") -> float:
        """Returns the same of the best fixed offset of each relation, chosen and scored on the same texts as heads are."""
        splits = self._splits(select)
        return _share((split.found_by_offset() for split in splits), splits)

    def _select(self, relation: RelationScore, select: Selection | RelationScores) -> Selection | RelationScore:
        if isinstance(select, str):
            return select
        same_weights((self.provenance, select.provenance))
        require_same((self, select), ("layers", "heads"))
        other = select.relations.get(relation.relation)
        return other if other is not None and other.pairs else "half"

    def _splits(self, select: Selection | RelationScores) -> list[Split]:
        """Returns the parts of each relation that can be scored on other texts than its head is chosen on; of all relations if
        none can."""
        found = [Split.of(each, self._select(each, select)) for each in self.relations.values() if each.pairs]
        return [split for split in found if split.chosen_on != "same"] or found

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


def _share(found: Iterable[int], splits: Iterable[Split]) -> float:
    pairs = sum(split.scored.pairs for split in splits)
    return sum(found) / pairs if pairs else math.nan


def by_distance(offsets: Mapping[int, int]) -> dict[int, int]:
    """Returns the pairs by distance, nearest first."""
    return {offset: offsets[offset] for offset in sorted(offsets, key=lambda offset: (abs(offset), -offset))}
