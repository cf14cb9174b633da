"""Comparisons of texts by their scores: accuracies by group, with intervals, and two models side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.questions.scores.inputs import text_of
from bertscope.questions.scores.sets import AskedSet
from bertscope.v1 import cloze_scores_pb2 as scores_pb2
from bertscope.v1 import common_pb2
from bertscope.values import validation
from bertscope.values.bootstrap import mcnemar
from bertscope.values.choices import Scoring
from bertscope.values.display import data_frame, record, table_html
from bertscope.values.intervals import Interval, ratio_interval, wilson_interval
from bertscope.values.lazy import made
from bertscope.values.messages import enum_name, provenance
from bertscope.values.results import Provenance
from bertscope.values.validation import TextOrPair

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ComparedSet", "GroupAccuracy", "GroupDifference", "TextComparison"]

Outcome = Literal["right", "tie", "wrong"]
"""The result of a comparison: the right text scores strictly higher than all others, as high as the best of them, or lower."""
ALL = ""
"""The group of all sets."""


@record
class ComparedSet:
    """The scores of a set's texts."""

    texts: tuple[TextOrPair, ...]
    """The texts, as given."""
    right: int
    """Index of the right one."""
    groups: tuple[str, ...]
    """Names of its groups."""
    log_likelihoods: tuple[float, ...]
    """The score of each text, nats."""
    scored_pieces: tuple[int, ...]
    """The scored pieces of each text."""
    outcome: Outcome
    """The result."""
    truncated_tokens: int
    """Number of tokens that were cut away from all of its texts."""
    scoring: Scoring
    """The pieces that were masked beside each scored one."""
    provenance: Provenance = field(repr=False)
    """Provenance of the scores."""

    @property
    def difference(self) -> float:
        """The right text's score minus the best score of the others, nats."""
        return self.log_likelihoods[self.right] - max(
            score for index, score in enumerate(self.log_likelihoods) if index != self.right
        )

    def to_row(self) -> dict[str, Any]:
        """Returns the columns of `write_items`: the scores of the set's texts in their order, nats, and their result."""
        return {
            "log_likelihoods": self.log_likelihoods,
            "difference": self.difference,
            "outcome": self.outcome,
            "scored_pieces": self.scored_pieces,
            "truncated_tokens": self.truncated_tokens,
        }


@record
class GroupAccuracy:
    """How often the right text of a group's sets scores highest."""

    group: str
    """Name of the group; empty for all sets."""
    sets: int
    """Its sets."""
    right: int
    """The sets whose right text scores strictly highest."""
    tied: int
    """The sets of which another text scores as high."""
    wrong: int
    """The other sets."""
    accuracy: float
    """right / sets; ties are not right."""
    interval: Interval
    """Wilson's interval of the accuracy."""
    mean_difference: float
    """Mean of the differences, nats."""


@record
class GroupDifference:
    """How the accuracies of two models differ on a group's sets."""

    group: str
    """Name of the group; empty for all sets."""
    sets: int
    """Its sets."""
    accuracy: float
    """Accuracy of the model."""
    baseline_accuracy: float
    """Accuracy of the baseline."""
    interval: Interval | None
    """The paired interval of the difference of both: of a bootstrap, adjusted where sets hardly differ; None below 5 sets."""
    won: int
    """The sets that the model alone has right."""
    lost: int
    """The sets that the baseline alone has right."""
    p: float
    """The two-sided p-value of McNemar's exact test that both are right equally often."""

    @property
    def difference(self) -> float:
        """accuracy - baseline_accuracy."""
        return self.accuracy - self.baseline_accuracy


@dataclass(frozen=True, eq=False, repr=False)
class TextComparison:
    """The scores of sets, and accuracies by group."""

    sets: tuple[ComparedSet, ...]
    """The sets, in order."""
    confidence: float = 0.95
    """The confidence of intervals."""

    def __repr__(self) -> str:
        whole = self.accuracy()
        return f"<TextComparison: {whole.sets} sets, accuracy {whole.accuracy:.3f}, {len(self.groups)} groups>"

    @cached_property
    def _members(self) -> dict[str, list[int]]:
        members: dict[str, list[int]] = {ALL: list(range(len(self.sets)))}
        for index, one in enumerate(self.sets):
            for name in dict.fromkeys(one.groups):
                members.setdefault(name, []).append(index)
        return members

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups: first those that sets name first, such as fields, then those that they name second, such as
        paradigms."""
        places: dict[str, int] = {}
        for one in self.sets:
            for place, name in enumerate(one.groups):
                places.setdefault(name, place)
        return tuple(sorted(places, key=places.__getitem__))

    def accuracy(self, group: str = ALL) -> GroupAccuracy:
        """Returns the accuracy of a group, or of all sets. Raises KeyError for an unknown group."""
        chosen = [self.sets[index] for index in self._of(group)]
        right, tied = (sum(one.outcome == outcome for one in chosen) for outcome in ("right", "tie"))
        return GroupAccuracy(
            group=group,
            sets=len(chosen),
            right=right,
            tied=tied,
            wrong=len(chosen) - right - tied,
            accuracy=right / len(chosen) if chosen else float("nan"),
            interval=wilson_interval(right, len(chosen), confidence=self.confidence),
            mean_difference=float(np.mean([one.difference for one in chosen])) if chosen else float("nan"),
        )

    def by_group(self) -> list[GroupAccuracy]:
        """Returns the accuracies of all groups."""
        return [self.accuracy(group) for group in self.groups]

    def against(self, baseline: TextComparison, group: str = ALL, *, seed: int = 0) -> GroupDifference:
        """Returns how the accuracy differs from that of another model, or of other interventions, on the same sets.

        Raises InvalidArgument for a comparison of other sets.
        """
        if [one.texts for one in self.sets] != [one.texts for one in baseline.sets]:
            raise invalid_argument("baseline", "has other sets; compare both models on the same ones")
        chosen = self._of(group)
        ours, theirs = (
            np.array([source.sets[index].outcome == "right" for index in chosen], np.float64) for source in (self, baseline)
        )
        won, lost = int((ours > theirs).sum()), int((ours < theirs).sum())
        return GroupDifference(
            group=group,
            sets=len(chosen),
            accuracy=float(ours.mean()),
            baseline_accuracy=float(theirs.mean()),
            interval=ratio_interval(ours - theirs, np.ones(len(chosen)), (-1.0, 1.0), confidence=self.confidence, seed=seed),
            won=won,
            lost=lost,
            p=mcnemar(lost, won),
        )

    def _of(self, group: str) -> list[int]:
        if group not in self._members:
            raise KeyError(f"no set is of the group {group!r}; there are {', '.join(self.groups)}")
        return self._members[group]

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self, level: Literal["set", "group"] = "group") -> pd.DataFrame:
        """Returns a row for each group, all sets first: group, sets, right, tied, wrong, accuracy, low, high, mean_difference;
        or, with the level "set", a row for each set: right_text, best_other, right_score, other_score, difference, outcome,
        groups. Needs the extra "pandas"."""
        levels = {"set": set_columns, "group": group_columns}
        return data_frame(validation.choice("level", level, levels)(self))


def text_comparison(sets: list[ComparedSet]) -> TextComparison:
    """Returns the comparison of some sets."""
    return TextComparison(tuple(sets))


def group_columns(comparison: TextComparison) -> dict[str, list[Any]]:
    """Returns the columns of `TextComparison.to_pandas`; needs no pandas."""
    found = [comparison.accuracy(), *comparison.by_group()]
    names = ("group", "sets", "right", "tied", "wrong", "accuracy")
    return {name: [getattr(one, name) for one in found] for name in names} | {
        "low": [one.interval.low for one in found],
        "high": [one.interval.high for one in found],
        "mean_difference": [one.mean_difference for one in found],
    }


def set_columns(comparison: TextComparison) -> dict[str, list[Any]]:
    """Returns the columns of `TextComparison.to_pandas("set")`; needs no pandas."""
    rows = [_set_row(one) for one in comparison.sets]
    names = ("right_text", "best_other", "right_score", "other_score", "difference", "outcome", "groups")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _set_row(one: ComparedSet) -> tuple[Any, ...]:
    others = [index for index in range(len(one.texts)) if index != one.right]
    best = max(others, key=lambda index: one.log_likelihoods[index])
    texts = (_line(one.texts[index]) for index in (one.right, best))
    scores = one.log_likelihoods[one.right], one.log_likelihoods[best]
    return *texts, *scores, one.difference, one.outcome, "|".join(one.groups)


def _line(text: TextOrPair) -> str:
    return text if isinstance(text, str) else "\n".join(text)


def read_compared_sets(asked: Sequence[AskedSet], response: scores_pb2.CompareTextsResponse) -> Iterable[ComparedSet]:
    """Returns the scores of a reply, each with its set."""
    if len(response.results) != len(asked):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(asked)} sets")
    source = provenance(response.provenance)
    scoring = enum_name(common_pb2.PseudoLogLikelihood, response.scoring, "PSEUDO_LOG_LIKELIHOOD_")
    return [_compared(one, message, scoring, source) for one, message in zip(asked, response.results, strict=True)]


def _compared(asked: AskedSet, message: scores_pb2.ComparedSet, scoring: str, source: Provenance) -> ComparedSet:
    texts = tuple(map(text_of, asked.given.texts))
    if len(message.log_likelihoods) != len(texts):
        raise InvalidReply(f"the server scored {len(message.log_likelihoods)} of a set's {len(texts)} texts")
    return made(
        ComparedSet,
        texts=texts,
        right=asked.given.right,
        groups=asked.given.group_names,
        log_likelihoods=tuple(message.log_likelihoods),
        scored_pieces=tuple(message.scored_pieces),
        outcome=enum_name(scores_pb2.ComparedSet.Outcome, message.outcome, "OUTCOME_"),
        truncated_tokens=message.truncated_tokens,
        scoring=scoring,
        provenance=source,
    )
