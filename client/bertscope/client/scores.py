# Generated from bertscope/questions/scores/calls.py. Do not edit: change that file, and run `make client`.
"""Calls for scores of whole texts: `score_texts`, `compare_texts`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import whole
from bertscope.questions.scores.inputs import Section, ToScore, asked_sections
from bertscope.questions.scores.texts import Assembly, ScoredText, ScoredTexts, read_sections
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import cloze_scores_pb2
from bertscope.values.choices import Scoring
from bertscope.values.interventions import Interventions
from bertscope.values.messages import with_items
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

        A text is a string, a tuple of two for a pair, or a `ScoredInput`, of which some parts are scored with the rest as
        context (`conditional("The keys to the cabinet", "are")`); any number of them, also from a generator. `scoring` says
        what is masked beside the piece: "within_word" the later pieces of its word (Kauf and Ivanova 2023), "original" nothing
        (Salazar et al. 2020), "whole_word" all of its word. Special tokens and the text's own masks are never scored.
        Without `pieces`, the replies are smaller and have no words.

        A text of n tokens is run about n times. Calls are as large as a few seconds allow, and long texts go in parts, so that
        `timeout`, which holds for each call, suffices for texts of any length. A text that the server rejects is an error that
        names its index ("inputs[70000]"), unless `on_rejected` takes its index and the error: then it is left out.

        The calls begin when the first score is requested. Closing the generator cancels running ones.
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
        return self._score_texts(request, texts, on_rejected, timeout)

    score_texts = whole(score_texts_stream, ScoredTexts)

    def _score_texts(
        self,
        request: cloze_scores_pb2.ScoreTextsRequest,
        texts: ToScore | Iterable[ToScore],
        on_rejected: OnRejected | None,
        timeout: float | None,
    ) -> Generator[ScoredText, None, None]:
        def build(sections: Iterable[Section]) -> cloze_scores_pb2.ScoreTextsRequest:
            return with_items(request, "inputs", [section.message for section in sections])

        assembly, asked = Assembly(), asked_sections(texts)
        answers = self._answers(
            asked,
            build,
            cloze_scores_pb2.ScoreTextsResponse,
            read_sections,
            timeout,
            pace=self._pace_by(lambda section: section.work, request.reference_texts, timeout),
            on_rejected=None if on_rejected is None else assembly.rejecting(on_rejected),
        )
        with closing(answers):
            for answer in answers:
                whole = assembly.add(answer)
                if whole is not None:
                    yield whole
