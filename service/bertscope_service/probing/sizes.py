"""The sizes of what TrainProbe trains for a plan, and the memory that they take."""

from __future__ import annotations

from dataclasses import replace

from bertscope_service.analyses.probes import ProbePlan
from bertscope_service.encoders.base import Encoder
from bertscope_service.probing.kinds import Size
from bertscope_service.probing.lbfgs import LbfgsProbes
from bertscope_service.probing.training import AdamProbes, Settings


def probe_sizes(plan: ProbePlan, encoder: Encoder, classes: int, settings: Settings) -> list[Size]:
    """Returns the blocks that are trained for a plan: of probes of layers, then of those of mixes if there are any."""
    seeds, layers = len(settings.seeds), len(plan.query.layers)
    length, device = vector_size(plan, encoder), encoder.device
    size = Size(layers, length, 2 * seeds, classes, settings.hidden_units, states=layers, device=device)
    sizes = [size, replace(size, groups=seeds, mix=True)] if settings.mix else [size]
    return [block for one in sizes for block in one.blocks(probes_kind(one).most(device))]


def probes_kind(size: Size) -> type[AdamProbes | LbfgsProbes]:
    """Returns what trains probes: where the minimum is one, L-BFGS finds it."""
    return AdamProbes if size.units or size.mix else LbfgsProbes


def probe_bytes(plan: ProbePlan, encoder: Encoder, classes: int, settings: Settings) -> int:
    """Returns the memory that training takes beside the states, approximately."""
    sizes, items = probe_sizes(plan, encoder, classes, settings), len(plan.train.labels)
    kept = sum(probes_kind(size).bytes(size) for size in sizes)
    return kept + max(probes_kind(size).step_bytes(size, items) for size in sizes)


def states_shape(plan: ProbePlan, encoder: Encoder) -> tuple[int, int, int]:
    """Returns the shape of the states of a plan's spans: spans, layers, and length."""
    return plan.spans, len(plan.query.layers), vector_size(plan, encoder)


def vector_size(plan: ProbePlan, encoder: Encoder) -> int:
    """Returns the length of what a probe reads: a state, or two of a pair."""
    return encoder.shape.hidden_size * (2 if plan.query.pairs else 1)
