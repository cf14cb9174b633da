# Generated from bertscope/questions/scores/comparison_calls.py. Do not edit: change that file, and run `make client`.
# Generated from comparison_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that compare texts by their scores: `compare_texts`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import whole
from bertscope.questions.scores.comparison import ComparedSet, read_compared_sets, text_comparison
from bertscope.questions.scores.sets import ToCompare, asked_sets, set_work, with_sets
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import cloze_scores_pb2
from bertscope.values.choices import Scoring
from bertscope.values.interventions import Interventions
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class ComparisonCalls(ManyTexts):
    """The methods of `Client` that compare texts by their scores."""

    def compare_texts_stream(
        self,
        sets: ToCompare | Iterable[ToCompare],
        *,
        model: str | Model | None = None,
        scoring: Scoring = "within_word",
        critical_region: bool = False,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[ComparedSet, None, None]:
        """Compares texts by their scores: how often the right text of a set scores highest, by group.

        The right text must score strictly higher than all others; ties are counted apart. Scores are those of `score_texts`.

        Two models are compared by `compare_texts(sets, model="a").against(compare_texts(sets, model="b"))`. Calls and rejected
        sets ("sets[70000]") are as in `score_texts`.

        The calls begin when the first set is requested. Closing the generator cancels running ones.

        Arguments:
            sets: A minimal pair (good, bad), or a `TextSet`; or any number of them, also from a generator or from `read_sets`.
            model: The model's name or a `Model`; None means the server's default model.
            scoring: The pieces that are masked beside the one that is scored: "original", "within_word" or "whole_word".
            critical_region: True: only the words in which a set's texts differ are scored, given the rest.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            cloze_scores_pb2.CompareTextsRequest,
            model=model,
            scoring=scoring,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._answers(
            asked_sets(sets, critical_region=critical_region),
            partial(with_sets, request),
            cloze_scores_pb2.CompareTextsResponse,
            read_compared_sets,
            timeout,
            pace=self._pace_by(set_work, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )

    compare_texts = whole(compare_texts_stream, text_comparison)
