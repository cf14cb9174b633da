# Generated from bertscope/questions/probes/application_calls.py. Do not edit: change that file, and run `make client`.
# Generated from application_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that apply kept probes: `apply_probe`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import SupportsIndex

from bertscope.client.many_texts import ManyTexts, OnTexts
from bertscope.questions.probes.applied_probes import AppliedProbe
from bertscope.questions.probes.kept_probes import KeptProbe
from bertscope.questions.probes.probe_application import asked_span_texts, read_applied, with_probe, with_span_texts
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import representation_probe_application_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.labelled_texts import ProbeText, UnlabelledText
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class ProbeApplicationCalls(ManyTexts):
    """The methods of `Client` that apply kept probes."""

    def apply_probe(
        self,
        probe: KeptProbe,
        texts: ProbeText | UnlabelledText | Iterable[ProbeText | UnlabelledText],
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        top_k: SupportsIndex = 1,
        any_weights: bool = False,
        truncate: bool = False,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AppliedProbe:
        """Classifies the words or spans of texts by probes that were trained before, and counts how often they are right.

        Texts without a span are not sent. A span whose label the probe does not have is classified, and counted in
        `unseen_labels` rather than scored. Spans in which no piece begins are left out and counted.

        Arguments:
            probe: The probe, as `load_probe` reads it.
            texts: Any number of `ProbeText`, or of `UnlabelledText`, whose classes are not known.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers whose probes are used; None means all of the probe's.
            top_k: Number of most probable classes of each span in the reply, 1 to the number of classes. Spans times layers
                times `top_k` are at most 500,000.
            any_weights: States of another model mean something else: unless this is set, a model with other weights than the
                probe was trained on is FailedPrecondition.
            truncate: True: cut texts that are longer than the model reads; spans that are cut away are left out and counted.
                False: such a text is an error.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = with_probe(
            request_of(
                representation_probe_application_pb2.ApplyProbeRequest,
                model=model,
                top_k=top_k,
                truncate=truncate,
                interventions=interventions,
                reference_texts=reference_texts,
            ),
            probe,
            layers=layers,
            any_weights=any_weights,
        )
        asked = asked_span_texts(texts, probe)
        answers = self._answers(
            asked,
            partial(with_span_texts, request),
            representation_probe_application_pb2.ApplyProbeResponse,
            lambda items, reply: [read_applied(reply, request, items)],
            timeout,
            pace=self._pace(lambda asked: asked.text.text, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return self._sum(answers, AppliedProbe.merge, asked.total, on_progress)
