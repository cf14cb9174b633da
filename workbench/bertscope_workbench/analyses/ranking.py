"""Ranks texts by a cross-encoder's value of each with a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bertscope import Client, Model, PredictedValue
from bertscope.values import validation
from bertscope.values.columns import Column
from bertscope.values.display import record
from bertscope.values.interventions import Interventions
from bertscope.values.results import Provenance, Results

__all__ = ["RankedCandidate", "RankedCandidates", "rank_candidates"]


@record
class RankedCandidate:
    """One candidate for a query, with its value."""

    candidate: str
    """The text."""
    index: int
    """Its place in the candidates that were given, from 0."""
    value: float
    """The model's value of the pair (query, candidate)."""
    truncated_tokens: int
    """Number of tokens of the query and the candidate that were cut away."""
    provenance: Provenance
    """Provenance of the value."""


class RankedCandidates(Results[RankedCandidate]):
    """The candidates of one `rank_candidates` call, highest value first; equal ones in the order in which they were given."""

    __slots__ = ()

    _table = (
        Column("rank"),
        Column("candidate", text=True),
        Column("index"),
        Column("value", form=".4f"),
        Column("truncated_tokens"),
    )

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        """Returns a row for each candidate: rank (1 is the highest value), candidate, index, value, truncated_tokens."""
        found = enumerate(self, start=1)
        return [(rank, one.candidate, one.index, one.value, one.truncated_tokens) for rank, one in found]


def rank_candidates(
    client: Client,
    query: str,
    candidates: str | Iterable[str],
    *,
    model: str | Model | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
    timeout: float | None = None,
) -> RankedCandidates:
    """Ranks texts by a cross-encoder's value of each pair (query, candidate), highest first (Nogueira and Cho 2019).

    Errors name candidate n as `inputs[n]`. Raises Unimplemented for a model without the capability "regression".
    """
    values = client.predict_values(
        query_pairs(query, candidates),
        model=model,
        interventions=interventions,
        reference_texts=reference_texts,
        truncate=truncate,
        timeout=timeout,
    )
    return ranked_candidates(values)


def query_pairs(query: str, candidates: str | Iterable[str]) -> list[tuple[str, str]]:
    """Returns the pair of a query and each candidate, the query first."""
    first = validation.text("query", query)
    return [(first, candidate) for candidate in validation.texts("candidates", candidates)]


def ranked_candidates(values: Sequence[PredictedValue]) -> RankedCandidates:
    """Returns the second texts of pairs by their values, highest first."""
    found = [
        RankedCandidate(one.text_pair or "", index, one.value, one.truncated_tokens, one.provenance)
        for index, one in enumerate(values)
    ]
    return RankedCandidates(sorted(found, key=lambda one: -one.value))
