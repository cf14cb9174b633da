"""ApplyProbe of the RepresentationService: kept probes on other texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from bertscope.v1 import representation_probe_application_pb2 as application_pb2
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.observers.probe_scores import Probes, ProbeScores
from bertscope_service.analyses.probe_application import NO_LABEL, ApplicationPlan, ApplicationQuery, LayerAnswers
from bertscope_service.analyses.probes import EMPTY, TRUNCATED, LabelledText
from bertscope_service.api.checks import check_numbers, read_text
from bertscope_service.api.field_checks import APPLY_PROBE_TOP_K
from bertscope_service.api.limits import MAX_HIDDEN_UNITS, RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.representation_probes import POOLINGS
from bertscope_service.api.requirements import require_states
from bertscope_service.api.spans import check_others, check_span
from bertscope_service.api.tensors import Expected, parse_tensor
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from bertscope_service.models.loaded import LoadedModel

Request = application_pb2.ApplyProbeRequest
Response = application_pb2.ApplyProbeResponse
PROBE = {
    pairs: Expected(
        "PROBE_MISMATCH",
        "PROBE_NOT_FINITE",
        f"{'pairs of' if pairs else 'single'} spans of this model and these labels",
        "use the model, labels and kind of spans that the probe was trained on",
        "train the probe again, and keep it in float32",
    )
    for pairs in (False, True)
}
"""The words of errors about a tensor of probes of pairs or not."""
USES = {TRUNCATED: Response.USE_TRUNCATED, EMPTY: Response.USE_EMPTY}


def plan_application(request: Request, model: LoadedModel, limits: RequestLimits) -> ApplicationPlan:
    """Plans the answer. Raises InvalidArgument, Unsupported for a model that shows no hidden states, and FailedPrecondition for
    a model with other weights than the probes were trained on."""
    require_states(model)
    if request.weights_digest and request.weights_digest != model.weights_digest:
        message = (
            f"{model.name} has other weights than the model that the probes were trained on, so its states mean something "
            "else; load that model, or leave weights_digest out to apply the probes all the same"
        )
        raise FailedPrecondition(message, "OTHER_WEIGHTS")
    classes = len(request.labels)
    pairs = any(span.HasField("other") for text in request.inputs for span in text.spans[:1])
    query = ApplicationQuery(
        tuple(_text(text, f"inputs[{index}]", classes, pairs=pairs) for index, text in enumerate(request.inputs)),
        check_probes(request.probes, model, classes, pairs=pairs),
        POOLINGS[request.pooling],
        request.top_k or APPLY_PROBE_TOP_K,
        request.truncate,
    )
    if query.top_k > classes:
        message = f"top_k is {query.top_k}; ask for 1 to {classes}, the number of classes"
        raise InvalidArgument("top_k", message, "TOP_K_OUT_OF_RANGE")
    return ApplicationPlan(query, model.tokenizer)


def check_probes(probes: Sequence[probes_pb2.ProbeWeights], model: LoadedModel, classes: int, *, pairs: bool) -> Probes:
    """Checks that probes are of different layers and of one form, fit the model's states and the classes, and are finite.
    Returns them in ascending order of their layers."""
    shape = model.encoder.shape
    check_numbers([probe.layer for probe in probes], "probes", "layer", shape.layers + 1, model.name)
    units = _hidden_units(probes[0])
    inputs = shape.hidden_size * (2 if pairs else 1)
    shapes = {"weights": (inputs, units or classes), "biases": (units or classes,)}
    if units:
        shapes |= {"output_weights": (units, classes), "output_biases": (classes,)}
    found: dict[str, list[NDArray[np.float32]]] = {name: [] for name in shapes}
    for index, probe in sorted(enumerate(probes), key=lambda entry: entry[1].layer):
        for name in ("output_weights", "output_biases"):
            place = f"probes[{index}].{name}"
            if probe.HasField(name) != bool(units):
                message = f"{place} is {'missing' if units else 'set'}, unlike that of probes[0]; give probes of one training"
                raise InvalidArgument(place, message, "PROBE_MISMATCH")
        for name, wanted in shapes.items():
            found[name].append(parse_tensor(getattr(probe, name), f"probes[{index}].{name}", wanted, PROBE[pairs]))
    arrays = tuple(np.stack(own) for own in found.values())
    return Probes(tuple(sorted(probe.layer for probe in probes)), arrays, pairs)


def _hidden_units(probe: probes_pb2.ProbeWeights) -> int:
    """Returns the hidden units of the first probe; 0 for a linear one."""
    if not probe.HasField("output_weights"):
        return 0
    units = probe.biases.shape[0] if len(probe.biases.shape) == 1 else 0
    if not 1 <= units <= MAX_HIDDEN_UNITS:
        message = f"probes[0].biases has {units} hidden units; send 1 to {MAX_HIDDEN_UNITS}, or no output_weights"
        raise InvalidArgument("probes[0].biases.shape", message, "PROBE_MISMATCH", limit=MAX_HIDDEN_UNITS)
    return units


def _text(text: application_pb2.ProbedText, field: str, classes: int, *, pairs: bool) -> LabelledText:
    given = read_text(text.input)
    spans = [check_span(entry.span, f"{field}.spans[{index}].span", given) for index, entry in enumerate(text.spans)]
    others = check_others(text.spans, f"{field}.spans", given, "inputs", pairs=pairs)
    labels = np.array([entry.label if entry.HasField("label") else NO_LABEL for entry in text.spans], dtype=np.int64)
    if len(labels) and int(labels.max()) >= classes:
        place = f"{field}.spans[{int(labels.argmax())}].label"
        message = f"{place} is {labels.max()}; labels has {classes} entries, counted from 0, and unset means no class of them"
        raise InvalidArgument(place, message, "LABEL_OUT_OF_RANGE")
    return LabelledText(f"{field}.input", given, spans, labels, others)


def render_application(plan: ApplicationPlan, results: Sequence[ProbeScores], model: LoadedModel) -> Response:
    """Renders the answers in ascending order of layers."""
    answers = plan.answers(results)
    return Response(
        uses=[Response.USE_CLASSIFIED if reason is None else USES[reason] for reason in plan.uses],
        labelled_spans=int((plan.labels != NO_LABEL).sum()),
        layers=[_render_layer(layer, own) for layer, own in zip(plan.query.probes.layers, answers, strict=True)],
        provenance=render_provenance(model),
    )


def _render_layer(layer: int, answers: LayerAnswers) -> application_pb2.LayerAnswers:
    return application_pb2.LayerAnswers(
        layer=layer,
        classes=answers.classes.ravel().tolist(),
        probabilities=answers.probabilities.ravel().tolist(),
        correct=answers.correct,
        loss=answers.loss,
        confusions=[
            application_pb2.ProbeConfusion(label=label, answer=answer, spans=spans)
            for label, answer, spans in answers.confusions.tolist()
        ],
    )
