"""Describes the attention of every head in a few numbers: the request of DescribeAttention, its replies and their sum."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.questions.attention.head_distances import HeadDistances
from bertscope.questions.attention.quantities import check_quantity
from bertscope.questions.attention.sums import Counts, HeadSums, PerHead, divided, head_sums
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from bertscope.values import validation
from bertscope.values.display import data_frame, table_html
from bertscope.values.merging import added, added_by_name, counts, numbers, require_same, same_weights
from bertscope.values.messages import QUANTITIES, Interventions, Numbers, enum_name, head_interventions, provenance
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AttentionDescription", "PatternSums"]

STATISTIC, PATTERN = "ATTENTION_STATISTIC_", "ATTENTION_PATTERN_"
STATISTICS = tuple(name.removeprefix(STATISTIC).lower() for name, number in statistics_pb2.AttentionStatistic.items() if number)
"""Names of the statistics, as the contract has them: "first_special", "separators", ..."""
PATTERNS = tuple(name.removeprefix(PATTERN).lower() for name, number in statistics_pb2.AttentionPattern.items() if number)
"""Names of the pattern classes: "vertical", "diagonal", ..."""


@dataclass(frozen=True, eq=False)
class PatternSums:
    """One pattern of all heads, summed over texts."""

    texts: Counts
    """[layers, heads], the texts whose map is of this class."""
    scores: HeadSums
    """The score of the pattern, 0 to 1, summed over the texts."""

    def __repr__(self) -> str:
        return f"<PatternSums of {self.scores.texts} texts>"

    def __add__(self, other: PatternSums) -> PatternSums:
        return PatternSums(self.texts + other.texts, self.scores + other.scores)


@dataclass(frozen=True, eq=False, repr=False)
class AttentionDescription:
    """Statistics and pattern classes of heads, summed over texts. Compared by identity, as numpy arrays have no truth value."""

    layers: tuple[int, ...]
    """Layer of each row of the arrays."""
    heads: int
    """Heads of a layer, 1 for a quantity that a layer has once. A head that was pruned away has the numbers of a map of zeros,
    and no pattern."""
    texts: int
    """The texts or pairs described."""
    tokens: int
    """Their tokens together, special tokens included."""
    truncated_texts: int
    """The texts that were cut."""
    statistics: Mapping[str, HeadSums]
    """Sums by the name of the statistic; one that no text has (`other_text` of single texts) is not there."""
    patterns: Mapping[str, PatternSums]
    """Counts and scores by the name of the pattern."""
    head_distances: HeadDistances | None
    """Divergences between all heads; None unless requested."""
    provenance: Provenance
    """Provenance of the numbers."""
    quantity: str = "weights"
    """The numbers that are described, as `describe_attention` names them; rows of norms are divided by their sums."""

    def __repr__(self) -> str:
        asked = f"{len(self.layers)} x {self.heads} heads, {self.texts} texts, {self.tokens} tokens"
        return f"<AttentionDescription: {asked}, {self.provenance.model}>"

    def mean(self, statistic: str) -> PerHead:
        """Returns [layers, heads]: the mean of a statistic over the texts that have it. Raises KeyError if none has it."""
        return self._sums(statistic).mean()

    def standard_error(self, statistic: str) -> PerHead:
        """Returns [layers, heads]: the standard error of `mean`; NaN with fewer than two texts."""
        return self._sums(statistic).standard_error()

    def pattern_share(self, pattern: str) -> PerHead:
        """Returns [layers, heads]: the share of texts whose map is of a class, 0 to 1."""
        return divided(self._pattern(pattern).texts, self.texts)

    def pattern_score(self, pattern: str) -> PerHead:
        """Returns [layers, heads]: the mean score of a pattern, 0 to 1."""
        return self._pattern(pattern).scores.mean()

    def majority(self) -> npt.NDArray[np.str_]:
        """Returns [layers, heads]: the class of most texts, by its name; empty for a head that was pruned away."""
        names = np.array([*self.patterns])
        found = np.stack([pattern.texts for pattern in self.patterns.values()])
        return np.where(found.max(0) > 0, names[found.argmax(0)], "")

    @classmethod
    def merge(cls, parts: Iterable[AttentionDescription]) -> AttentionDescription:
        """Returns the description of all texts of the parts, the same as of one call with them all.

        Raises InvalidArgument without a part, or for parts with other layers, heads or kinds of numbers, FailedPrecondition for
        models with other weights.
        """
        parts = [*parts]
        source = same_weights(part.provenance for part in parts)
        require_same(parts, ("layers", "heads", "has_head_distances", "quantity"))
        first = parts[0]
        if len(parts) == 1:
            return first
        distances = first.head_distances
        for part in parts[1:]:
            distances = distances + part.head_distances if distances and part.head_distances else None
        return cls(
            layers=first.layers,
            heads=first.heads,
            statistics=added_by_name((part.statistics for part in parts), STATISTICS),
            patterns=added_by_name((part.patterns for part in parts), PATTERNS),
            head_distances=distances,
            provenance=source,
            quantity=first.quantity,
            **added(parts, ("texts", "tokens", "truncated_texts")),
        )

    @property
    def has_head_distances(self) -> bool:
        """True if the divergences between heads are there."""
        return self.head_distances is not None

    def _sums(self, statistic: str) -> HeadSums:
        if statistic not in self.statistics:
            raise KeyError(f"no text has the statistic {statistic!r}; there are {', '.join(self.statistics)}")
        return self.statistics[statistic]

    def _pattern(self, pattern: str) -> PatternSums:
        if pattern not in self.patterns:
            raise KeyError(f"there is no pattern {pattern!r}; there are {', '.join(self.patterns)}")
        return self.patterns[pattern]

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each head: layer, head, texts; each statistic and its standard error ("entropy", "entropy_error");
        the share of texts of each class ("share_vertical"), the mean score of each pattern ("score_vertical"), and the class of
        most texts ("pattern"). Needs the extra "pandas"."""
        return data_frame(description_columns(self))


def description_columns(description: AttentionDescription) -> dict[str, npt.NDArray[Any]]:
    """Returns the columns of `AttentionDescription.to_pandas`; needs no pandas."""
    layer, head = np.indices((len(description.layers), description.heads)).reshape(2, -1)
    columns: dict[str, npt.NDArray[Any]] = {
        "layer": np.array(description.layers)[layer],
        "head": head,
        "texts": np.full(layer.size, description.texts),
    }
    for name in description.statistics:
        columns[name] = description.mean(name).reshape(-1)
        columns[f"{name}_error"] = description.standard_error(name).reshape(-1)
    columns |= {f"share_{name}": description.pattern_share(name).reshape(-1) for name in description.patterns}
    columns |= {f"score_{name}": description.pattern_score(name).reshape(-1) for name in description.patterns}
    return columns | {"pattern": description.majority().reshape(-1)}


def document(description: AttentionDescription) -> dict[str, Any]:
    """Returns the description in JSON types: arrays are [layers, heads]."""
    distances = description.head_distances
    return {
        "quantity": description.quantity,
        "layers": list(description.layers),
        "heads": description.heads,
        "texts": description.texts,
        "tokens": description.tokens,
        "truncated_texts": description.truncated_texts,
        "statistics": {
            name: {"texts": sums.texts, "mean": sums.mean().tolist(), "standard_error": sums.standard_error().tolist()}
            for name, sums in description.statistics.items()
        },
        "patterns": {
            name: {"texts": pattern.texts.tolist(), "score": pattern.scores.mean().tolist()}
            for name, pattern in description.patterns.items()
        },
        "head_divergences": None if distances is None else distances.divergences().tolist(),
        "provenance": dataclasses.asdict(description.provenance),
    }


def describe_attention_request(
    *,
    model: str | Model | None,
    layers: Numbers | None,
    punctuation: str | Iterable[str] | None,
    head_distances: bool,
    quantity: str,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> statistics_pb2.DescribeAttentionRequest:
    """Returns the request of DescribeAttention, without its inputs."""
    marks = None if punctuation is None else validation.not_empty("punctuation", validation.texts("punctuation", punctuation))
    return statistics_pb2.DescribeAttentionRequest(
        model=model_name("model", model),
        layers=validation.uint32s("layers", layers),
        punctuation=marks,
        head_distances=validation.flag("head_distances", head_distances),
        quantity=validation.choice("quantity", quantity, QUANTITIES),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def read_description(message: statistics_pb2.DescribeAttentionResponse, quantity: int = 0) -> AttentionDescription:
    """Returns the description of the texts of one call, of the requested quantity.

    Raises InvalidReply for a reply that breaks the contract.
    """
    layers, heads = tuple(message.layers), message.heads
    shape = len(layers), heads
    statistics = {}
    for each in message.statistics:
        name = enum_name(statistics_pb2.AttentionStatistic, each.statistic, STATISTIC)
        statistics[name] = head_sums(each.sums, shape, name)
    patterns = {}
    for pattern in message.patterns:
        name = enum_name(statistics_pb2.AttentionPattern, pattern.pattern, PATTERN)
        texts = counts(pattern.texts, shape, f"the pattern {name}")
        patterns[name] = PatternSums(texts, head_sums(pattern.scores, shape, f"the pattern {name}"))
    if not patterns or len(patterns) != len(message.patterns) or len(statistics) != len(message.statistics):
        raise InvalidReply("the server sent a statistic or a pattern twice, or no pattern")
    return AttentionDescription(
        layers=layers,
        heads=heads,
        texts=message.texts,
        tokens=message.tokens,
        truncated_texts=message.truncated_texts,
        statistics=statistics,
        patterns=patterns,
        head_distances=_distances(message.head_distances, layers, heads) if message.HasField("head_distances") else None,
        provenance=provenance(message.provenance),
        quantity=check_quantity(quantity, message.quantity),
    )


def _distances(message: statistics_pb2.HeadDistances, layers: tuple[int, ...], heads: int) -> HeadDistances:
    names = tuple((layer, head) for layer in layers for head in range(heads))
    return HeadDistances(names, message.texts, numbers(message.sums, (len(names), len(names)), "distances between heads"))
