"""Declares the calls that compare texts by their scores: `compare_texts`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bertscope.questions.scores.comparison import ComparedSet, read_compared_sets, text_comparison
from bertscope.questions.scores.sets import ToCompare, asked_sets, set_work, with_sets
from bertscope.rpc.uniform import each
from bertscope.values.choices import Scoring


class ComparisonCalls(Protocol):
    """The methods of `AsyncClient` that compare texts by their scores."""

    @each(asked_sets, read_compared_sets, text_comparison, build=with_sets, work=set_work)
    def compare_texts(
        self, sets: ToCompare | Iterable[ToCompare], *, scoring: Scoring = "within_word", critical_region: bool = False
    ) -> ComparedSet:
        """Compares texts by their scores: how often the right text of a set scores highest, by group.

        The right text must score strictly higher than all others; ties are counted apart. Scores are those of `score_texts`.

        Two models are compared by `compare_texts(sets, model="a").against(compare_texts(sets, model="b"))`. Calls and rejected
        sets ("sets[70000]") are as in `score_texts`.

        The calls begin when the first set is requested. Closing the generator cancels running ones.

        Arguments:
            sets: A minimal pair (good, bad), or a `TextSet`; or any number of them, also from a generator or from `read_sets`.
            critical_region: True: only the words in which a set's texts differ are scored, given the rest.
        """
