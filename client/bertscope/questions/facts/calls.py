"""Calls for facts: `query_facts`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sized
from contextlib import aclosing
from functools import partial
from typing import SupportsIndex

from bertscope.questions.facts.answers import (
    Fact,
    FactResult,
    Relations,
    asked_facts,
    read_facts_reply,
    relations_by_name,
    with_facts,
)
from bertscope.questions.facts.knowledge import FactAnswers, joined
from bertscope.rpc.async_many_texts import AsyncManyTexts, OnTexts
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import cloze_facts_pb2
from bertscope.values.choices import ObjectScoring
from bertscope.values.interventions import Interventions
from bertscope.values.models import Model
from bertscope.values.requests import request_of
from bertscope.values.results import TextsProgress


class AsyncFactCalls(AsyncManyTexts):
    """The methods of `AsyncClient` that ask for facts."""

    async def query_facts(
        self,
        facts: Fact | Iterable[Fact],
        relations: Relations,
        *,
        model: str | Model | None = None,
        vocabulary: str | Iterable[str] = (),
        scoring: ObjectScoring = "single_entry",
        max_pieces: SupportsIndex | None = None,
        top_k: SupportsIndex = 1,
        prior: bool = False,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: OnTexts | None = None,
        timeout: float | None = None,
    ) -> FactAnswers:
        """Asks what a model knows: ranks the right objects of facts in the templates of their relations, as LAMA does (Petroni
        et al. 2019). `scores()` of the result has P@1, P@10 and MRR by relation.

        Any number of `Fact`, also from a generator. Objects are ranked among the candidates of their relation, else among
        `vocabulary`, else among the whole vocabulary of the model. With `scoring="candidates"` objects may have several pieces;
        "left_to_right" and "confidence_first" fill 1 to `max_pieces` masks (5 unless set), and rank the fillings.
        `prior` also asks with a mask in place of the subject. Facts that can't be asked are skipped, with the reason.
        `on_progress` is called after each answer with a `TextsProgress` of the facts. `timeout` holds for each call.
        """
        known = relations_by_name(relations)
        facts = [facts] if isinstance(facts, Fact) else facts
        stream = self.query_facts_stream(
            facts,
            known.values(),
            model=model,
            vocabulary=vocabulary,
            scoring=scoring,
            max_pieces=max_pieces,
            top_k=top_k,
            prior=prior,
            interventions=interventions,
            reference_texts=reference_texts,
            timeout=timeout,
        )
        total = len(facts) if isinstance(facts, Sized) else None
        results = list[FactResult]()
        async with aclosing(stream):
            async for result in stream:
                results.append(result)
                if on_progress is not None:
                    on_progress(TextsProgress(len(results), total))
        return joined(results, known)

    def query_facts_stream(
        self,
        facts: Fact | Iterable[Fact],
        relations: Relations,
        *,
        model: str | Model | None = None,
        vocabulary: str | Iterable[str] = (),
        scoring: ObjectScoring = "single_entry",
        max_pieces: SupportsIndex | None = None,
        top_k: SupportsIndex = 1,
        prior: bool = False,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[FactResult, None]:
        """Streams the answers of `query_facts` in order, as they come, in memory that does not grow with the number of facts.

        The calls begin when the first answer is requested. Closing the generator cancels running ones. `on_rejected` takes the
        index and the error of each fact that the server rejects, which is then left out; without it that ends the stream.
        """
        known = relations_by_name(relations)
        request = request_of(
            cloze_facts_pb2.QueryFactsRequest,
            model=model,
            vocabulary=vocabulary,
            scoring=scoring,
            max_pieces=max_pieces,
            top_k=top_k,
            prior=prior,
            interventions=interventions,
            reference_texts=reference_texts,
        )
        return self._answers(
            asked_facts(facts, known),
            partial(with_facts, request, known),
            cloze_facts_pb2.QueryFactsResponse,
            partial(read_facts_reply, known),
            timeout,
            large=bool(request.reference_texts),
            on_rejected=on_rejected,
        )
