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
from bertscope.values.all_interventions import Interventions
from bertscope.values.choices import Scoring
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

        A set is a minimal pair (good, bad), or a `TextSet`; any number of them, also from a generator or from `read_sets`. The
        right text must score strictly higher than all others; ties are counted apart. Scores are those of `score_texts`. With
        `critical_region`, only the words in which a set's texts differ are scored, given the rest.

        Two models are compared by `compare_texts(sets, model="a").against(compare_texts(sets, model="b"))`. Calls, rejected
        sets ("sets[70000]") and `timeout` are as in `score_texts`.

        The calls begin when the first set is requested. Closing the generator cancels running ones.
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
