"""Calls that rank texts: `rank_candidates`."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.questions.labels.classification_calls import AsyncLabelCalls
from bertscope.questions.labels.regression import (
    RankedCandidates,
    query_pairs,
    ranked_candidates,
)
from bertscope.values.all_interventions import Interventions
from bertscope.values.models import Model


class AsyncRankingCalls(AsyncLabelCalls):
    """The methods of `AsyncClient` that rank texts."""

    async def rank_candidates(
        self,
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
        values = await self.predict_values(
            query_pairs(query, candidates),
            model=model,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
            timeout=timeout,
        )
        return ranked_candidates(values)
