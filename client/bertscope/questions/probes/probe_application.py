"""The request that applies kept probes to texts, and its reply."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.questions.probes.applied_probes import AppliedLayer, AppliedProbe, ProbedSpan
from bertscope.questions.probes.kept_probes import ARRAYS, KeptProbe
from bertscope.questions.probes.probe_requests import POOLINGS
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_probe_application_pb2 as application_pb2
from bertscope.v1.representation_probe_application_pb2 import ApplyProbeRequest, ApplyProbeResponse
from bertscope.values import messages as wire
from bertscope.values import validation
from bertscope.values.labelled_texts import AskedText, ProbeText, UnlabelledText
from bertscope.values.messages import Asked, Numbers
from bertscope.values.vectors import tensor

GivenTexts = ProbeText | UnlabelledText | Iterable[ProbeText | UnlabelledText]


def asked_span_texts(texts: GivenTexts, probe: KeptProbe) -> Asked[AskedText]:
    """Returns the texts that have a span; the others have nothing to classify. A sequence is checked at once, an
    iterator as it is read."""
    pairs = isinstance(probe, KeptProbe) and probe.pairs
    single = isinstance(texts, (ProbeText, UnlabelledText))
    given = [texts] if single else validation.many("texts", texts, "ProbeTexts")
    numbers = array("Q")

    def some() -> Iterator[AskedText]:
        for index, text in enumerate(given):
            if not isinstance(text, (ProbeText, UnlabelledText)):
                raise invalid_argument(f"texts[{index}]", f"must be a ProbeText or UnlabelledText, not {type(text).__name__}")
            one = AskedText(index, text)
            one.check(pairs=pairs)
            if one.spans:
                numbers.append(index)
                yield one

    return wire.asked(given, some(), numbers)


def with_probe(request: ApplyProbeRequest, probe: KeptProbe, *, layers: Numbers | None, any_weights: bool) -> ApplyProbeRequest:
    """Returns the request with the probe's labels and weights. Raises InvalidArgument for what can't be sent."""
    if not isinstance(probe, KeptProbe):
        raise invalid_argument("probe", f"must be a KeptProbe, not {type(probe).__name__}; load_probe reads one")
    if not probe.labels:
        problem = "is of numbers, and apply_probe gives classes; states of extract_hidden_states times its weights give numbers"
        raise invalid_argument("probe", problem)
    request.labels.extend(probe.labels)
    request.pooling = validation.choice("pooling", probe.pooling, POOLINGS)
    request.weights_digest = "" if validation.flag("any_weights", any_weights) else probe.weights_digest
    for layer in validation.uint32s("layers", layers) or probe.layers:
        if layer not in probe.weights:
            raise invalid_argument("layers", f"has layer {layer}; the probes are of layers {list(probe.layers)}")
        request.probes.add(layer=layer, **dict(zip(ARRAYS, map(tensor, probe.weights[layer]), strict=False)))
    return request


def with_span_texts(request: ApplyProbeRequest, texts: Sequence[AskedText]) -> ApplyProbeRequest:
    """Returns the request with some texts."""
    if not texts:
        raise invalid_argument("texts", "no text has a span, so there is nothing to classify; give at least one")
    numbers = {name: number for number, name in enumerate(request.labels)}
    return wire.with_items(request, "inputs", (_message(text, numbers) for text in texts))


def _message(asked: AskedText, numbers: dict[str, int]) -> application_pb2.ProbedText:
    message = application_pb2.ProbedText(input=wire.text_input(asked.text.text))
    for label, place, other in asked.spans:
        own, second = (None if one is None else common_pb2.CharacterSpan(**one._asdict()) for one in (place, other))
        message.spans.add(span=own, label=None if label is None else numbers.get(label), other=second)
    return message


def read_applied(reply: ApplyProbeResponse, request: ApplyProbeRequest, texts: Sequence[AskedText]) -> AppliedProbe:
    """Returns the answers of one call. Raises InvalidReply for a reply that breaks the contract."""
    labels, uses = tuple(request.labels), ApplyProbeResponse.Use
    known, unseen, spans, scored = frozenset(labels), dict[str, int](), list[ProbedSpan](), 0
    marked = [(asked, *one) for asked in texts for one in asked.spans]
    if len(marked) != len(reply.uses) or [own.layer for own in reply.layers] != sorted(own.layer for own in request.probes):
        raise InvalidReply("the server sent the answers of other spans or layers than were asked for")
    for (asked, label, place, other), use in zip(marked, reply.uses, strict=True):
        if use != uses.USE_CLASSIFIED:
            continue
        segments = [asked.text.text] if isinstance(asked.text.text, str) else asked.text.text
        words = [segments[one.segment][one.start : one.end] for one in (place, other) if one is not None]
        spans.append(ProbedSpan(asked.number, *place, " / ".join(words), label, other))
        scored += label in known
        if label is not None and label not in known:
            unseen[label] = unseen.get(label, 0) + 1
    if scored != reply.labelled_spans:
        raise InvalidReply(f"the server scored {reply.labelled_spans} spans of {scored}")
    return AppliedProbe(
        texts=len(texts),
        spans=tuple(spans),
        layers=tuple(_layer(own, len(spans), request.top_k, len(labels)) for own in reply.layers),
        labels=labels,
        scored_spans=scored,
        truncated_spans=list(reply.uses).count(uses.USE_TRUNCATED),
        empty_spans=list(reply.uses).count(uses.USE_EMPTY),
        unseen_labels=tuple(sorted(unseen.items())),
        provenance=wire.provenance(reply.provenance),
    )


def _layer(own: application_pb2.LayerAnswers, spans: int, top_k: int, count: int) -> AppliedLayer:
    classes, shares = np.array(own.classes, np.int64), np.array(own.probabilities, np.float32)
    confusion = np.zeros((count, count), np.int64)
    if len(classes) != spans * top_k or len(shares) != len(classes) or (len(classes) and classes.max() >= count):
        raise InvalidReply(f"the server sent {len(classes)} classes and {len(shares)} probabilities for {spans} spans")
    for entry in own.confusions:
        if max(entry.label, entry.answer) >= count:
            raise InvalidReply("the server sent a confusion of classes that were not asked for")
        confusion[entry.label, entry.answer] = entry.spans
    shape = spans, top_k
    return AppliedLayer(own.layer, classes.reshape(shape), shares.reshape(shape), own.correct, own.loss, confusion)
