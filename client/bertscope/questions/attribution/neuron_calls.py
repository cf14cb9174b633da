"""Calls that divide a score among neurons or heads: `find_neurons`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Literal, SupportsIndex

from bertscope.questions.attribution.inputs import Section, asked_sections, with_sections
from bertscope.questions.attribution.neurons import NeuronAttribution, NeuronAttributions, read_neurons, with_site
from bertscope.questions.representations.codes import SparseCodes
from bertscope.rpc.async_many_texts import AsyncManyTexts
from bertscope.rpc.async_streams import whole
from bertscope.rpc.pacing import Pace
from bertscope.rpc.splitting import CALLS_UNDER_WAY, OnRejected
from bertscope.v1 import attribution_pb2
from bertscope.values.choices import AttributionMethod
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.positions import Positions
from bertscope.values.requests import request_of
from bertscope.values.score_targets import ScoreTarget
from bertscope.values.validation import TextOrPair


class AsyncNeuronCalls(AsyncManyTexts):
    """The methods of `AsyncClient` that divide scores among neurons."""

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

        Knowledge neurons of Dai et al. 2022 (section 3.1) are those of `Answer("Paris", scale="probability")` at a mask. Texts
        and `target` are those of `attribute_words`. `site` is "neurons", the activations of feed-forward blocks, "heads",
        or sparse codes, whose layer alone counts; what they leave unexplained stays.
        `positions` are those whose units count, at most 128 of a text: the masks, or all tokens of a text without one, unless
        given. The `top` units (20) of the largest absolute values come back; `changes` of the answer silences or amplifies
        them in any other call.

        `method` "integrated_gradients" runs `steps` (10) for each layer, which are tripled until the error is under `tolerance`
        (0.01), no longer falls, or `max_steps` (1,000) are reached; "gradient" one.

        Calls are as large as a few seconds allow. `timeout` holds for each. A text that the server rejects is an error that
        names its index ("inputs[70000]"), unless `on_rejected` takes its index and the error: then it is left out. The calls
        begin when the first answer is requested. Closing the generator cancels running ones.
        """
        request = request_of(
            attribution_pb2.AttributeWordsRequest,
            model=model,
            method=method,
            steps=steps,
            max_steps=max_steps,
            tolerance=tolerance,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        request = with_site(request, site, layers, positions, top)
        return self._answers(
            asked_sections(texts, target, None, request),
            partial(with_sections, request),
            attribution_pb2.AttributeWordsResponse,
            partial(read_neurons, request),
            timeout,
            pace=Pace(_work, self._seconds(timeout), request.reference_texts, width=CALLS_UNDER_WAY),
            on_rejected=on_rejected,
        )

    find_neurons = whole(find_neurons_stream, NeuronAttributions)


def _work(section: Section) -> float:
    return section.work
