# Generated from bertscope/questions/scores/calls.py. Do not edit: change that file, and run `make client`.
# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for scores of whole texts: `score_texts`, `compare_texts`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import joined, whole
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
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import cloze_scores_pb2
from bertscope.values.choices import Scoring
from bertscope.values.interventions import Interventions
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class ScoreCalls(ManyTexts):
    """The methods of `Client` that score and compare whole texts."""

    def score_texts_stream(
        self,
        texts: ToScore | Iterable[ToScore],
        *,
        model: str | Model | None = None,
        scoring: Scoring = "within_word",
        pieces: bool = True,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[ScoredText, None, None]:
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
            model: The model's name or a `Model`; None means the server's default model.
            scoring: The pieces that are masked beside the one that is scored: "original", "within_word" or "whole_word".
            pieces: False: the replies are smaller and have no words.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error. A part to score that would be cut away is an error in either case.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            cloze_scores_pb2.ScoreTextsRequest,
            model=model,
            scoring=scoring,
            pieces=pieces,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        sections = Assembly()
        return joined(
            self._answers(
                asked_sections(texts),
                partial(with_sections, request),
                cloze_scores_pb2.ScoreTextsResponse,
                read_sections,
                timeout,
                pace=self._pace_by(section_work, request.reference_texts, timeout),
                on_rejected=sections.rejecting(on_rejected),
            ),
            sections.add,
        )

    score_texts = whole(score_texts_stream, ScoredTexts)

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
