"""Checks, plans, runs and renders TrainStructuralProbe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from bertscope.v1 import representation_structural_probes_pb2 as structural_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.tree_probes import TreePart, TreePlan, TreeQuery, TreeText
from bertscope_service.api.checks import check_numbers, read_text
from bertscope_service.api.enums import members, numbers
from bertscope_service.api.field_checks import TRAIN_STRUCTURAL_PROBE_SEEDS
from bertscope_service.api.limits import MAX_PROBE_SPANS, MAX_PROBE_TEXTS
from bertscope_service.api.representation_probes import POOLING_NUMBERS, POOLINGS
from bertscope_service.api.requirements import require_states
from bertscope_service.api.spans import check_span
from bertscope_service.api.training import TrainingRpc, check_total
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.structural import Quantity
from bertscope_service.probing.structural_run import PartScores, StructuralSettings, StructuralTrained, StructuralTraining
from bertscope_service.probing.tree_scores import TreeScore, correlated, total

Request = structural_pb2.TrainStructuralProbeRequest
Response = structural_pb2.TrainStructuralProbeResponse
QUANTITY_NUMBERS = numbers(Quantity, Request.Quantity, "QUANTITY_")
QUANTITIES = {Request.QUANTITY_UNSPECIFIED: Quantity.DISTANCE} | members(Quantity, Request.Quantity, "QUANTITY_")
RANK = 64
"""Rows of B unless the request has another number: in the paper, more raise its scores by little."""
EPOCHS, PATIENCE = 40, 4


def plan_structural_probes(request: Request, model: LoadedModel) -> StructuralTraining:
    """Plans the training. Raises InvalidArgument, and Unsupported for a model that shows no hidden states."""
    require_states(model)
    settings = _settings(request, model.encoder.shape.hidden_size)
    train, dev, test = _parts(request)
    query = TreeQuery(
        train,
        dev,
        test,
        layers=tuple(sorted(check_numbers(request.layers, "layers", "layer", model.encoder.shape.layers + 1, model.name))),
        pooling=POOLINGS[request.pooling],
        truncate=request.truncate,
        seed=request.seed,
    )
    return StructuralTraining(TreePlan(query, model.tokenizer), settings)


def _settings(request: Request, hidden: int) -> StructuralSettings:
    seeds = request.seeds or TRAIN_STRUCTURAL_PROBE_SEEDS
    if request.rank > hidden:
        raise InvalidArgument("rank", f"rank is {request.rank}; use 1 to {hidden}", "RANK_OUT_OF_RANGE", limit=hidden)
    return StructuralSettings(
        QUANTITIES[request.quantity],
        request.rank or min(RANK, hidden),
        request.max_epochs or EPOCHS,
        request.patience or PATIENCE,
        tuple((request.seed + index) % 2**64 for index in range(seeds)),
    )


def _parts(request: Request) -> list[list[TreeText]]:
    """Returns the texts of the three parts, checked."""
    parts = {"train": request.train, "dev": request.dev, "test": request.test}
    check_total(parts, "texts", sum(map(len, parts.values())), MAX_PROBE_TEXTS)
    check_total(parts, "words", sum(len(text.words) for part in parts.values() for text in part), MAX_PROBE_SPANS)
    return [[_text(text, f"{name}[{index}]") for index, text in enumerate(part)] for name, part in parts.items()]


def _text(text: structural_pb2.TreeText, field: str) -> TreeText:
    given = read_text(text.input)
    spans = {
        index: check_span(word.span, f"{field}.words[{index}].span", given)
        for index, word in enumerate(text.words)
        if word.HasField("span")
    }
    inside = [index for index, word in enumerate(text.words) if word.HasField("head")]
    heads = _heads(text, inside, f"{field}.words")
    placed = [node for node, index in enumerate(inside) if index in spans]
    words = [inside[node] for node in placed]
    return TreeText(
        f"{field}.input",
        given,
        heads,
        [spans[index] for index in words],
        np.array(placed, dtype=np.int64),
        np.array([text.words[index].punctuation for index in words], dtype=np.bool_),
    )


def _heads(text: structural_pb2.TreeText, inside: Sequence[int], field: str) -> NDArray[np.int64]:
    """Returns the index of each word's head among those of the tree, its own of the root. Raises InvalidArgument."""
    nodes = {index + 1: node for node, index in enumerate(inside)}
    for index in inside:
        head = text.words[index].head
        if head == index + 1 or (head and head not in nodes):
            place = f"{field}[{index}].head"
            message = f"{place} is {head}; name another word with a head by its number, from 1, or 0 for the root"
            raise InvalidArgument(place, message, "WORD_HEAD_OUT_OF_RANGE")
    heads = np.array([nodes.get(text.words[index].head, node) for node, index in enumerate(inside)], dtype=np.int64)
    roots = int((heads == np.arange(len(heads))).sum())
    reached = heads
    for _ in range(len(heads).bit_length()):
        reached = reached[reached]
    if roots != 1 or (heads[reached] != reached).any():
        message = f"{field} has {roots} roots; let one word have the head 0, and all others be below it"
        if roots == 1:
            message = f"{field} has heads that go round in a circle; let all words be below the root"
        raise InvalidArgument(field, message, "NOT_A_TREE")
    return heads


def render_structural_probes(training: StructuralTraining, trained: StructuralTrained) -> Iterator[Response]:
    """Renders the report."""
    plan, settings = training.plan, training.settings
    distances = settings.quantity is Quantity.DISTANCE
    report = structural_pb2.StructuralProbeReport(
        train=_render_part(plan.train, distances=distances),
        dev=_render_part(plan.dev, distances=distances),
        test=_render_part(plan.test, distances=distances) if plan.test.texts else None,
        chain=_render_run(trained, "chain", (0, 0)),
        best_layer=plan.query.layers[int(trained.best_loss[:, 0].argmin())],
        quantity=QUANTITY_NUMBERS[settings.quantity],
        rank=settings.rank,
        pooling=POOLING_NUMBERS[plan.query.pooling],
    )
    for index, layer in enumerate(plan.query.layers):
        own = report.layers.add(layer=layer)
        for which, seed in enumerate(settings.seeds):
            probe = _render_run(trained, "probes", (index, which))
            probe.seed, probe.best_epoch = seed, int(trained.best_epoch[index, which])
            own.probes.append(probe)
            own.projections.append(_render_run(trained, "projections", (index, which)))
            own.projections[-1].seed = seed
    yield Response(report=report)


def _render_part(part: TreePart, *, distances: bool) -> structural_pb2.TreePart:
    return structural_pb2.TreePart(
        texts=part.texts,
        used_texts=len(part.trees),
        words=part.words,
        truncated_words=part.truncated,
        empty_words=part.empty,
        total=total(part.trees, distances=distances),
        correlated_texts=correlated(part.trees),
    )


def _render_run(
    trained: StructuralTrained, kind: Literal["probes", "projections", "chain"], place: tuple[int, int]
) -> structural_pb2.StructuralRun:
    def score(part: PartScores) -> structural_pb2.StructuralScore:
        found: TreeScore = getattr(part, kind)
        return structural_pb2.StructuralScore(
            correct=int(found.correct[place]), spearman=float(found.spearman[place]), loss=float(found.loss[place])
        )

    return structural_pb2.StructuralRun(dev=score(trained.dev), test=None if trained.test is None else score(trained.test))


TRAIN_STRUCTURAL_PROBE = TrainingRpc(Response, plan_structural_probes, render_structural_probes, best="best_dev_loss")
