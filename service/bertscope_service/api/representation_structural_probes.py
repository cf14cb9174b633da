"""Checks, plans, runs and renders TrainStructuralProbe."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from bertscope.v1 import representation_structural_probes_pb2 as structural_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.tree_probes import TreePart, TreePlan, TreeQuery, TreeText
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.checks import check_numbers, read_text
from bertscope_service.api.field_checks import TRAIN_STRUCTURAL_PROBE_SEEDS
from bertscope_service.api.limits import (
    MAX_PROBE_SPANS,
    MAX_PROBE_TEXTS,
    RequestLimits,
)
from bertscope_service.api.progress import progress_of
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.representation_probes import POOLING_NUMBERS, POOLINGS, parse_memory_bytes
from bertscope_service.api.requirements import require_states
from bertscope_service.api.spans import check_span
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.states import StateSpace
from bertscope_service.probing.structural import Quantity
from bertscope_service.probing.structural_run import (
    PartScores,
    StructuralProgress,
    StructuralSettings,
    StructuralTrained,
    StructuralTraining,
    structural_size,
)
from bertscope_service.probing.tree_scores import TreeScore, correlated, total

Request = structural_pb2.TrainStructuralProbeRequest
Response = structural_pb2.TrainStructuralProbeResponse
QUANTITY_NUMBERS = {one: Request.Quantity.Value(f"QUANTITY_{one.name}") for one in Quantity}
QUANTITIES = {Request.QUANTITY_UNSPECIFIED: Quantity.DISTANCE} | {number: one for one, number in QUANTITY_NUMBERS.items()}
RANK = 64
"""Rows of B unless the request has another number: in the paper, more raise its scores by little."""
EPOCHS, PATIENCE = 40, 4
Report = Callable[[StructuralProgress], None]


@dataclass(frozen=True, slots=True)
class PlannedStructuralProbes:
    """A checked TrainStructuralProbe request: its texts, how probes are trained, and the memory that it may take, bytes."""

    plan: TreePlan
    settings: StructuralSettings
    memory_bytes: int


async def train_structural_probe(
    request: Request, backend: Backend, context: Context, space: StateSpace
) -> AsyncGenerator[Response, None]:
    """Answers TrainStructuralProbe. Raises InvalidArgument, Unsupported, Overloaded, FailedPrecondition."""
    with backend.registry.use(request.model) as model:
        call = Call.of(backend, model, context)

        def plan(request: Request, model: LoadedModel, limits: RequestLimits) -> PlannedStructuralProbes:
            return plan_structural_probes(request, model, limits, space.memory_bytes)

        planned, conditions = await call.read(request, plan)
        trees, encoder = planned.plan, model.encoder
        size = structural_size(trees, encoder, planned.settings)
        longest = max(len(tree) for part in trees.parts for tree in part.trees)
        needed = size.bytes + max(block.step_bytes(longest) for block in size.blocks())
        with space.hold(4 * trees.words * size.layers * size.hidden, needed, planned.memory_bytes) as on_disk:
            found: list[StructuralTrained] = []

            async def work(report: Report) -> None:
                edits = await call.edits(conditions)
                training = StructuralTraining(encoder, trees, planned.settings, call.bulk(), edits, report)
                found.append(await training.run(on_disk=on_disk))

            # Closed explicitly: the work of a client that is gone must not go on until garbage collection.
            async with aclosing(progress_of(work, lambda progress: progress.training)) as reports:
                async for progress in reports:
                    yield Response(progress=render_progress(progress))
            yield Response(report=await call.compute(partial(render_report, planned, found[0], model)))


def plan_structural_probes(
    request: Request, model: LoadedModel, limits: RequestLimits, memory_bytes: int
) -> PlannedStructuralProbes:
    """Plans the training. `memory_bytes` is the server's setting. Raises InvalidArgument, and Unsupported for a model that
    shows no hidden states."""
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
    allowed = parse_memory_bytes(request, memory_bytes)
    return PlannedStructuralProbes(TreePlan(query, model.tokenizer), settings, allowed)


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
    texts = sum(map(len, parts.values()))
    words = sum(len(text.words) for part in parts.values() for text in part)
    for what, reason, count, most in (
        ("texts", "TOO_MANY_TEXTS", texts, MAX_PROBE_TEXTS),
        ("words", "TOO_MANY_SPANS", words, MAX_PROBE_SPANS),
    ):
        if count > most:
            message = f"train, dev and test have {count} {what} together and one call takes {most}; leave some out"
            raise InvalidArgument("train", message, reason, limit=most)
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


def render_progress(progress: StructuralProgress) -> structural_pb2.StructuralProbeProgress:
    stage = probes_pb2.ProbeProgress.STAGE_TRAINING if progress.training else probes_pb2.ProbeProgress.STAGE_STATES
    return structural_pb2.StructuralProbeProgress(
        stage=stage, done=progress.done, total=progress.total, best_dev_loss=progress.loss
    )


def render_report(
    planned: PlannedStructuralProbes, trained: StructuralTrained, model: LoadedModel
) -> structural_pb2.StructuralProbeReport:
    plan, settings = planned.plan, planned.settings
    distances = settings.quantity is Quantity.DISTANCE
    report = structural_pb2.StructuralProbeReport(
        train=_render_part(plan.train, distances=distances),
        dev=_render_part(plan.dev, distances=distances),
        test=_render_part(plan.test, distances=distances) if plan.test.texts else None,
        chain=_render_run(trained, "chain", (0, 0)),
        best_layer=plan.query.layers[int(trained.best_loss[:, 0].argmin())],
        quantity=QUANTITY_NUMBERS[settings.quantity],
        rank=settings.rank,
        hidden_size=model.encoder.shape.hidden_size,
        pooling=POOLING_NUMBERS[plan.query.pooling],
        on_disk=trained.on_disk,
        seconds=trained.seconds,
        provenance=render_provenance(model),
    )
    for index, layer in enumerate(plan.query.layers):
        own = report.layers.add(layer=layer)
        for which, seed in enumerate(settings.seeds):
            probe = _render_run(trained, "probes", (index, which))
            probe.seed, probe.best_epoch = seed, int(trained.best_epoch[index, which])
            own.probes.append(probe)
            own.projections.append(_render_run(trained, "projections", (index, which)))
            own.projections[-1].seed = seed
    return report


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
