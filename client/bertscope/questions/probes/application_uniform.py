"""Declares the calls that apply kept probes: `apply_probe`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.probes.applied_probes import AppliedProbe
from bertscope.questions.probes.kept_probes import KeptProbe
from bertscope.questions.probes.probe_application import asked_span_texts, read_applied, with_probe, with_span_texts
from bertscope.rpc.uniform import total
from bertscope.values.labelled_texts import ProbeText, UnlabelledText
from bertscope.values.messages import Numbers


class ProbeApplicationCalls(Protocol):
    """The methods of `AsyncClient` that apply kept probes."""

    @total(
        asked_span_texts,
        read_applied,
        text=lambda asked: asked.text.text,
        build=with_span_texts,
        finish=with_probe,
        without="labels pooling weights_digest",
        order="model layers top_k any_weights truncate",
    )
    def apply_probe(
        self,
        probe: KeptProbe,
        texts: ProbeText | UnlabelledText | Iterable[ProbeText | UnlabelledText],
        *,
        layers: Numbers | None = None,
        top_k: SupportsIndex = 1,
        any_weights: bool = False,
    ) -> AppliedProbe:
        """Classifies the words or spans of texts by probes that were trained before, and counts how often they are right.

        Texts without a span are not sent. A span whose label the probe does not have is classified, and counted in
        `unseen_labels` rather than scored. Spans in which no piece begins are left out and counted.

        Arguments:
            probe: The probe, as `load_probe` reads it.
            texts: Any number of `ProbeText`, or of `UnlabelledText`, whose classes are not known.
            layers: Layers whose probes are used; None means all of the probe's.
            any_weights: States of another model mean something else: unless this is set, a model with other weights than the
                probe was trained on is FailedPrecondition.
        """
