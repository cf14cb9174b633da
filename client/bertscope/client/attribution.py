# Generated from bertscope/questions/attribution/calls.py. Do not edit: change that file, and run `make client`.
"""Calls that divide a score among the words of its text: `attribute_words`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial
from typing import SupportsIndex

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import whole
from bertscope.questions.attribution.inputs import Places, Section, SectionPace, asked_sections, with_sections
from bertscope.questions.attribution.words import Assembly, WordAttribution, WordAttributions, read_sections
from bertscope.rpc.splitting import CALLS_UNDER_WAY, OnRejected
from bertscope.v1 import attribution_pb2
from bertscope.values.choices import AbsentText, AttributionMethod, AttributionUnit
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Asked
from bertscope.values.models import Model
from bertscope.values.requests import request_of
from bertscope.values.score_targets import ScoreTarget
from bertscope.values.validation import TextOrPair


class AttributionCalls(ManyTexts):
    """The methods of `Client` that divide scores among words."""

    def attribute_words_stream(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        target: ScoreTarget | Iterable[ScoreTarget],
        *,
        model: str | Model | None = None,
        method: AttributionMethod = "shapley",
        absent: AbsentText | None = None,
        unit: AttributionUnit = "word",
        spans: Places | Iterable[Places] | None = None,
        exact_units: SupportsIndex | None = None,
        pairs: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        first_pair: SupportsIndex = 0,
        steps: SupportsIndex | None = None,
        max_steps: SupportsIndex | None = None,
        tolerance: float | None = None,
        interactions: bool = False,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[WordAttribution, None, None]:
        """Tells which words made a score: divides v(all words) - v(no word) among them.

        A text is a string, or a tuple of two for a pair; any number of them, also from a generator. `target` is the number v,
        one for all texts or one for each: `Answer("are", "is")` at a mask, `TextLabel`, `WordLabel`, `PassageAnswer`,
        `TextValue`, `SimilarTo` or `NextSentence`. `attribute_logits` tells which parts of the model made a score.

        `method` "shapley" gives Shapley values: exact up to `exact_units` words (10 unless set, 12 at most), from 2^n texts
        each; beyond, means over `pairs` (10) of orders, which `seed` chooses, with an interval for each word from 5 pairs on.
        Answers about other pairs, from number `first_pair` on, are added by `+`.
        "occlusion" takes one word away at a time. "integrated_gradients" runs `steps` (10), which are tripled until the error
        is under `tolerance` (0.01), no longer falls, or `max_steps` (1,000) are reached. "gradient" and "frozen" run the text
        once. An `absent` word is "mask" tokens (unless set), "deleted", or with gradients "zero" states.

        Values go to words, to pieces (`unit="piece"`), or to `spans`: parts of the text, (start, end) or (start, end, segment);
        for several texts such a list for each. `interactions` also tells which two words act together, for exact values.

        Calls are as large as a few seconds allow; the pairs of long texts are divided among several. `timeout` holds for each.
        A text that the server rejects is an error that names its index ("inputs[70000]"), unless `on_rejected` takes its index
        and the error: then it is left out. The calls begin when the first answer is requested. Closing the generator cancels
        running ones.
        """
        request = request_of(
            attribution_pb2.AttributeWordsRequest,
            model=model,
            method=method,
            absent=absent,
            unit=unit,
            exact_units=exact_units,
            pairs=pairs,
            seed=seed,
            first_pair=first_pair,
            steps=steps,
            max_steps=max_steps,
            tolerance=tolerance,
            interactions=interactions,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._attribute_words(request, asked_sections(texts, target, spans, request), on_rejected, timeout)

    attribute_words = whole(attribute_words_stream, WordAttributions)

    def _attribute_words(
        self,
        request: attribution_pb2.AttributeWordsRequest,
        asked: Asked[Section],
        on_rejected: OnRejected | None,
        timeout: float | None,
    ) -> Generator[WordAttribution, None, None]:
        assembly = Assembly()
        answers = self._answers(
            asked,
            partial(with_sections, request),
            attribution_pb2.AttributeWordsResponse,
            partial(read_sections, request),
            timeout,
            pace=SectionPace(_work, self._seconds(timeout), request.reference_texts, width=CALLS_UNDER_WAY),
            on_rejected=None if on_rejected is None else assembly.rejecting(on_rejected),
        )
        with closing(answers):
            for answer in answers:
                found = assembly.add(answer)
                if found is not None:
                    yield found


def _work(section: Section) -> float:
    return section.work
