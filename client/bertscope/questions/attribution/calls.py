# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that divide scores: `attribute_words`, `find_neurons`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Literal, SupportsIndex

from bertscope.questions.attribution.inputs import Places, SectionPace, asked_sections, asked_whole, section_work, with_sections
from bertscope.questions.attribution.neurons import NeuronAttribution, NeuronAttributions, read_neurons, with_site
from bertscope.questions.attribution.words import Assembly, WordAttribution, WordAttributions, read_sections
from bertscope.questions.representations.codes import SparseCodes
from bertscope.rpc.async_many_texts import AsyncManyTexts
from bertscope.rpc.async_streams import joined, whole
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import attribution_pb2
from bertscope.values.choices import AbsentText, AttributionMethod, AttributionUnit
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.positions import Positions
from bertscope.values.requests import request_of
from bertscope.values.score_targets import ScoreTarget
from bertscope.values.validation import TextOrPair


class AsyncAttributionCalls(AsyncManyTexts):
    """The methods of `AsyncClient` that divide scores among words or neurons."""

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
    ) -> AsyncGenerator[WordAttribution, None]:
        """Tells which words made a score: divides v(all words) - v(no word) among them.

        `target` is the number v: `Answer("are", "is")` at a mask, `TextLabel`, `WordLabel`, `PassageAnswer`, `TextValue`,
        `SimilarTo` or `NextSentence`. `attribute_logits` tells which parts of the model made a score.

        `method` "shapley" gives Shapley values: exact up to `exact_units` words, from 2^n texts each; beyond, means over
        `pairs` of orders, which `seed` chooses, with an interval for each word from 5 pairs on. Answers about other pairs, from
        number `first_pair` on, are added by `+`.
        "occlusion" takes one word away at a time. "integrated_gradients" runs `steps`, which are tripled until the error is
        under `tolerance`, no longer falls, or `max_steps` are reached. "gradient" and "frozen" run the text once. An `absent`
        word is "mask" tokens (unless set), "deleted", or with gradients "zero" states.

        `interactions` also tells which two words act together, for exact values.

        Calls are as large as a few seconds allow; the pairs of long texts are divided among several. `timeout` holds for each.
        A rejected text is named by its index in the whole list ("inputs[70000]"). The calls begin when the first answer is
        requested. Closing the generator cancels running ones.

        Arguments:
            texts: A string, or a tuple of two for a pair; any number of them, also from a generator.
            target: The number, one for all texts or one for each.
            model: The model's name or a `Model`; None means the server's default model.
            method: How numbers are divided among words: "shapley", "occlusion", "integrated_gradients", "gradient" or "frozen".
            absent: What an absent word leaves behind: "mask", "deleted" or "zero".
            unit: What values are given to, in texts without `spans`: "word" or "piece".
            spans: Parts of the text that values go to, (start, end) or (start, end, segment); for several texts such a list for
                each. None means words, or pieces with `unit="piece"`.
            exact_units: Shapley values of texts with up to so many units are exact, from 2^n rows each, 0 to 12; None means 10.
            pairs: Pairs of orders for each text with more units, 1 to 10,000; None means 10. A pair runs 2 (n - 1) rows. Fewer
                than 5 make intervals too short.
            seed: Chooses the orders: pair k of a seed is the same in every call.
            first_pair: Number of the first pair, from 0, so that the pairs of a text can be divided among calls whose sums are
                added.
            steps: Steps of integrated gradients to begin with, 1 to 1,000; None means 10. They are tripled, which keeps those
                that ran, as long as `completeness_error` is over `tolerance` and `max_steps` allows it, but beyond 100 steps
                only if two triplings halved it.
            max_steps: Most steps, 1 to 1,000, at least `steps`; None means 1,000.
            tolerance: The `completeness_error` that is small enough, 0.0001 to 1; None means 0.01.
            interactions: True: also which two units act together, in exact Shapley values; a text whose values would be sampled
                is an error then.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error, and so is one whose mask, or whose target's words, would be cut away.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
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
        sections = Assembly()
        return joined(
            self._answers(
                asked_sections(texts, target, spans, request),
                partial(with_sections, request),
                attribution_pb2.AttributeWordsResponse,
                partial(read_sections, request),
                timeout,
                pace=self._pace_by(section_work, request.reference_texts, timeout, SectionPace),
                on_rejected=sections.rejecting(on_rejected),
            ),
            sections.add,
        )

    attribute_words = whole(attribute_words_stream, WordAttributions)

    def find_neurons_stream(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        target: ScoreTarget | Iterable[ScoreTarget],
        *,
        model: str | Model | None = None,
        site: Literal["neurons", "heads"] | SparseCodes = "neurons",
        layers: Numbers | None = None,
        positions: Positions | None = None,
        top: SupportsIndex | None = None,
        method: AttributionMethod = "integrated_gradients",
        steps: SupportsIndex | None = None,
        max_steps: SupportsIndex | None = None,
        tolerance: float | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[NeuronAttribution, None]:
        """Tells which neurons made a score: divides v(text) - v(the layer's neurons at 0) among them, one layer at a time.

        Knowledge neurons of Dai et al. 2022 (section 3.1) are those of `Answer("Paris", scale="probability")` at a mask.
        `changes` of the answer silences or amplifies its units in any other call.

        `method` "integrated_gradients" runs `steps` for each layer, which are tripled until the error is under `tolerance`, no
        longer falls, or `max_steps` are reached; "gradient" one.

        Calls are as large as a few seconds allow. `timeout` holds for each. A rejected text is named by its index in the whole
        list ("inputs[70000]"). The calls begin when the first answer is requested. Closing the generator cancels running ones.

        Arguments:
            texts: Texts, as in `attribute_words`.
            target: The number, as in `attribute_words`.
            model: The model's name or a `Model`; None means the server's default model.
            site: "neurons", the activations of feed-forward blocks, "heads", or sparse codes, whose layer alone counts; what
                they leave unexplained stays.
            layers: Layers whose units count; None means all.
            positions: Positions whose units count, at most 128 of a text; None means the masks, or all tokens of a text without
                one.
            top: Units that come back, those of the largest absolute values; None means 20.
            method: How numbers are divided among words: "shapley", "occlusion", "integrated_gradients", "gradient" or "frozen".
            steps: Steps of integrated gradients to begin with, 1 to 1,000; None means 10. They are tripled, which keeps those
                that ran, as long as `completeness_error` is over `tolerance` and `max_steps` allows it, but beyond 100 steps
                only if two triplings halved it.
            max_steps: Most steps, 1 to 1,000, at least `steps`; None means 1,000.
            tolerance: The `completeness_error` that is small enough, 0.0001 to 1; None means 0.01.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error, and so is one whose mask, or whose target's words, would be cut away.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = with_site(
            request_of(
                attribution_pb2.AttributeWordsRequest,
                model=model,
                method=method,
                steps=steps,
                max_steps=max_steps,
                tolerance=tolerance,
                interventions=interventions,
                reference_texts=reference_texts,
                truncate=truncate,
            ),
            site,
            layers,
            positions,
            top,
        )
        return self._answers(
            asked_whole(texts, target, request),
            partial(with_sections, request),
            attribution_pb2.AttributeWordsResponse,
            partial(read_neurons, request),
            timeout,
            pace=self._pace_by(section_work, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )

    find_neurons = whole(find_neurons_stream, NeuronAttributions)
