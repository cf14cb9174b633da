"""Declares the calls for scores of whole texts: `score_texts`, `compare_texts`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bertscope.questions.scores.comparison import ComparedSet, read_compared_sets, text_comparison
from bertscope.questions.scores.inputs import (
    ToCompare,
    ToScore,
    asked_sections,
    asked_sets,
    section_work,
    set_work,
    with_sections,
    with_sets,
)
from bertscope.questions.scores.texts import Assembly, ScoredText, ScoredTexts, read_sections
from bertscope.rpc.uniform import each
from bertscope.values.choices import Scoring


class ScoreCalls(Protocol):
    """The methods of `AsyncClient` that score and compare whole texts."""

    @each(
        asked_sections,
        read_sections,
        ScoredTexts,
        build=with_sections,
        work=section_work,
        sections=Assembly,
        order="model scoring pieces",
    )
    def score_texts(
        self, texts: ToScore | Iterable[ToScore], *, scoring: Scoring = "within_word", pieces: bool = True
    ) -> ScoredText:
        """Scores texts by pseudo-log-likelihood: the sum over their pieces of ln P(piece | the rest, piece masked).

        `scoring` says what is masked beside the piece: "within_word" the later pieces of its word (Kauf and Ivanova 2023),
        "original" nothing (Salazar et al. 2020), "whole_word" all of its word. Special tokens and the text's own masks are
        never scored.

        A text of n tokens is run about n times. Calls are as large as a few seconds allow, and long texts go in parts, so that
        `timeout`, which holds for each call, suffices for texts of any length. A rejected text is named by its index in the
        whole list ("inputs[70000]").

        The calls begin when the first score is requested. Closing the generator cancels running ones.

        Arguments:
            texts: A string, a tuple of two for a pair, or a `ScoredInput`, of which some parts are scored with the rest as
                context (`conditional("The keys to the cabinet", "are")`); any number of them, also from a generator.
            pieces: False: the replies are smaller and have no words.
        """

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
