"""Checks, plans, runs and renders TrainProbe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from bertscope.v1 import representation_probes_pb2 as probes_pb2

from bertscope_service.analyses.observers.pooling import Pooling
from bertscope_service.analyses.probes import LabelledText, ProbePlan, ProbeQuery
from bertscope_service.api.checks import check_numbers, read_text
from bertscope_service.api.field_checks import TRAIN_PROBE_SEEDS
from bertscope_service.api.limits import MAX_PROBE_SPANS, MAX_PROBE_TEXTS
from bertscope_service.api.matrices import render_matrix
from bertscope_service.api.representation_probe_parts import render_hits, render_part, render_values
from bertscope_service.api.requirements import require_states
from bertscope_service.api.spans import check_others, check_span
from bertscope_service.api.training import TrainingRpc, check_total
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.outcome import Outcome, Trained
from bertscope_service.probing.run import ProbeTraining
from bertscope_service.probing.training import Score, Settings

Request = probes_pb2.TrainProbeRequest
Response = probes_pb2.TrainProbeResponse
POOLING_NUMBERS = {one: Request.Pooling.Value(f"POOLING_{one.name}") for one in (Pooling.MEAN, Pooling.FIRST, Pooling.LAST)}
POOLINGS = {Request.POOLING_UNSPECIFIED: Pooling.MEAN} | {number: one for one, number in POOLING_NUMBERS.items()}
TO_MINIMUM = {Request.ENDING_UNSPECIFIED: False, Request.ENDING_DEV: False, Request.ENDING_MINIMUM: True}
MINIMUM_EPOCHS = 800
"""Most passes to the minimum, unless the request has another number."""


def plan_probes(request: Request, model: LoadedModel) -> ProbeTraining:
    """Plans the training. Raises InvalidArgument, and Unsupported for a model that shows no hidden states."""
    require_states(model)
    settings = parse_settings(request)
    train, dev, test = _parts(request)
    query = ProbeQuery(
        train,
        dev,
        test,
        layers=tuple(sorted(check_numbers(request.layers, "layers", "layer", model.encoder.shape.layers + 1, model.name))),
        pooling=POOLINGS[request.pooling],
        truncate=request.truncate,
        seed=request.seed,
    )
    plan = ProbePlan(query, model.tokenizer)
    return ProbeTraining(plan, settings, outputs=len(request.labels) or 1, weights=request.weights)


def parse_settings(request: Request) -> Settings:
    """Returns how probes are trained. Raises InvalidArgument."""
    usual = Settings()
    l2 = request.l2 if request.HasField("l2") else usual.l2
    seeds = request.seeds or TRAIN_PROBE_SEEDS
    to_minimum = TO_MINIMUM[request.ending]
    if to_minimum and request.patience:
        message = "patience goes with ENDING_DEV; ENDING_MINIMUM trains to the minimum whatever the dev texts say"
        raise InvalidArgument("patience", message, "PATIENCE_WITHOUT_DEV")
    for field in ("hidden_units", "mix"):
        if to_minimum and getattr(request, field):
            message = f"{field} goes with ENDING_DEV: what such probes minimise has more than one minimum"
            raise InvalidArgument(field, message, "NOT_CONVEX")
    if request.mix and not request.labels:
        message = "mix goes with labels; probes of numbers are of single layers, so leave it out"
        raise InvalidArgument("mix", message, "MIX_OF_NUMBERS")
    epochs = MINIMUM_EPOCHS if to_minimum else usual.max_epochs
    return Settings(
        l2,
        request.max_epochs or epochs,
        request.patience or usual.patience,
        tuple((request.seed + index) % 2**64 for index in range(seeds)),
        to_minimum,
        request.hidden_units,
        request.mix,
        regression=not request.labels,
    )


def _parts(request: Request) -> list[list[LabelledText]]:
    """Returns the texts of the three parts, checked."""
    pairs = any(span.HasField("other") for text in request.train for span in text.spans[:1])
    if not request.labels and not any(span.HasField("value") for text in request.train for span in text.spans):
        message = "labels has 0 entries; name 2 to 1000 classes, or give each span a value"
        raise InvalidArgument("labels", message, "ONE_CLASS")
    parts = {"train": request.train, "dev": request.dev, "test": request.test}
    return read_parts(parts, len(request.labels), pairs=pairs)


def read_parts(
    parts: Mapping[str, Sequence[probes_pb2.ProbeText]], classes: int, *, pairs: bool = False
) -> list[list[LabelledText]]:
    """Returns the texts of all parts, by their fields, checked. `classes`: 0 for spans that have numbers. `pairs`: all spans
    have a second one, else none. Raises InvalidArgument."""
    texts = [text for part in parts.values() for text in part]
    check_total(parts, "texts", len(texts), MAX_PROBE_TEXTS)
    check_total(parts, "spans", sum(len(text.spans) for text in texts), MAX_PROBE_SPANS)
    return [
        [_text(text, f"{name}[{index}]", classes, pairs=pairs) for index, text in enumerate(part)]
        for name, part in parts.items()
    ]


def _text(text: probes_pb2.ProbeText, field: str, classes: int, *, pairs: bool) -> LabelledText:
    given = read_text(text.input)
    spans = [check_span(entry.span, f"{field}.spans[{index}].span", given) for index, entry in enumerate(text.spans)]
    others = check_others(text.spans, f"{field}.spans", given, "train", pairs=pairs)
    _check_values(text, field, numbers=not classes)
    if not classes:
        values = np.array([entry.value for entry in text.spans], dtype=np.float64)
        return LabelledText(f"{field}.input", given, spans, values, others)
    labels = np.array([entry.label for entry in text.spans], dtype=np.int64)
    if len(labels) and int(labels.max()) >= classes:
        index = int((labels >= classes).argmax())
        place = f"{field}.spans[{index}].label"
        message = f"{place} is {labels[index]}; labels has {classes} entries, counted from 0"
        raise InvalidArgument(place, message, "LABEL_OUT_OF_RANGE")
    return LabelledText(f"{field}.input", given, spans, labels, others)


def _check_values(text: probes_pb2.ProbeText, field: str, *, numbers: bool) -> None:
    """Raises InvalidArgument for a span that has a number beside classes, or none where others have."""
    for index, entry in enumerate(text.spans):
        if entry.HasField("value") != numbers:
            place = f"{field}.spans[{index}].value"
            message = f"{place} is missing; give each span one, as labels name no classes"
            if not numbers:
                message = f"{place} is set beside classes; leave it out, or for probes of numbers leave labels out"
            raise InvalidArgument(place, message, "VALUES_MIXED")
        if numbers and entry.label:
            place = f"{field}.spans[{index}].label"
            raise InvalidArgument(place, f"{place} is {entry.label} beside a value; leave it out", "VALUES_MIXED")


def render_probes(training: ProbeTraining, trained: Trained) -> Iterator[Response]:
    """Renders the report, then the first probe of each layer if they are asked for."""
    yield Response(report=render_report(training, trained))
    for index in range(len(training.plan.query.layers) if training.weights else 0):
        yield Response(weights=render_weights(training.plan, trained, index))


def render_report(training: ProbeTraining, trained: Trained) -> probes_pb2.ProbeReport:
    plan, seeds, regression = training.plan, training.settings.seeds, training.settings.regression
    classes = len(trained.confusion)
    majority = 0 if regression else int(np.bincount(plan.train.labels, minlength=classes).argmax())
    # Squared errors of standardised numbers times this are squares of the numbers' unit.
    unit = plan.target[1] ** 2 if regression else 1.0
    report = probes_pb2.ProbeReport(
        train=render_part(plan.train, classes, majority),
        dev=render_part(plan.dev, classes, majority),
        test=render_part(plan.test, classes, majority) if plan.test.texts else None,
        majority_label=majority,
        best_layer=plan.query.layers[trained.best_layer],
        confusion=trained.confusion.ravel().tolist(),
        pooling=POOLING_NUMBERS[plan.query.pooling],
    )
    part = plan.test if plan.test.texts else plan.dev

    for index, layer in enumerate(plan.query.layers):
        task, control = (
            [_render_run(trained, trained.probes, index, group + first, seed, unit) for group, seed in enumerate(seeds)]
            for first in (0, len(seeds))
        )
        found = report.layers.add(layer=layer, task=task, control=control)
        if regression:
            found.errors.extend((trained.probes.hits[index] * unit).tolist())
            continue
        found.hits.extend(render_hits(part.counts, trained.probes.hits[index]))
        if trained.mix is not None:
            mixed = [_render_run(trained, trained.mix, index, group, seed, unit) for group, seed in enumerate(seeds)]
            report.mix.cumulative.add(layer=layer, task=mixed, hits=render_hits(part.counts, trained.mix.hits[index]))
    if regression:
        report.values.extend(render_values(part))
    if trained.mixing is not None:
        for seed, (scale, *shares) in zip(seeds, trained.mixing.tolist(), strict=True):
            report.mix.weights.add(seed=seed, scale=scale, shares=shares)
    return report


def _render_run(trained: Trained, outcome: Outcome, layer: int, group: int, seed: int, unit: float) -> probes_pb2.ProbeRun:
    def score(found: Score, part: int) -> probes_pb2.ProbeScore:
        loss = float(found.loss[layer, group])
        if trained.variances is None:
            return probes_pb2.ProbeScore(correct=int(found.correct[layer, group]), loss=loss)
        return probes_pb2.ProbeScore(loss=2 * unit * loss, variance=unit * float(trained.variances[part, group]))

    return probes_pb2.ProbeRun(
        seed=seed,
        best_epoch=int(outcome.best_epoch[layer, group]),
        dev=score(outcome.dev, 0),
        test=None if outcome.test is None else score(outcome.test, 1),
        gradient=None if outcome.gradient is None else float(outcome.gradient[layer, group]),
    )


def render_weights(plan: ProbePlan, trained: Trained, index: int) -> probes_pb2.ProbeWeights:
    """Renders the first probe of the layer with this index."""
    names = ("weights", "biases", "output_weights", "output_biases")
    tensors = {name: render_matrix(values[index]) for name, values in zip(names, trained.weights, strict=False)}
    return probes_pb2.ProbeWeights(layer=plan.query.layers[index], **tensors)


TRAIN_PROBE = TrainingRpc(Response, plan_probes, render_probes, best="best_dev_accuracy")
