"""Paths through gRPC: each effect is that of two passes of transformers with plain hooks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import ablation_sites_pb2 as sites

from tests.support.calls import call, refusal
from tests.support.harness import Host
from tests.support.hooked import INPUTS, Hooked
from tests.support.reference import Reference
from tests.support.site_loop import Edge, Loop, path_values

Request = sites.SweepSitesRequest
RESTORE, BREAK = range(1, 3)
CLEAN = {"clean": {"text": "The cat [MASK] on the mat."}, "target": {"mask": {"answer": "the", "other": "cat"}}}
PAIR = CLEAN | {"corrupted": {"text": "The mat [MASK] on the cat."}}
NOISY = CLEAN | {"noise": {"spans": {"spans": [{"start": 4, "end": 7}]}, "deviation": 2.0, "samples": 2, "seed": 3}}
CLOSE = 2e-4


@pytest.fixture(scope="module")
def folders(checkpoint: Callable[[str], Path]) -> dict[str, Path]:
    return {name: checkpoint(name) for name in (*INPUTS, "modernbert")}


def sweep(host: Host, **fields: Any) -> tuple[dict[Edge, sites.SiteEffect], sites.SiteSweepSummary]:
    start, *effects, end = call(host, "SweepSites", **fields)
    assert start.start.total == len(effects)
    assert start.start.positions == sites.POSITION_SCOPE_TOGETHER
    layers = [event.effect.receiver.layer for event in effects]
    assert layers == sorted(layers)
    return {key(event.effect): event.effect for event in effects}, end.summary


def key(effect: sites.SiteEffect) -> Edge:
    receiver = effect.receiver
    assert not effect.HasField("position")
    sender = effect.unit if effect.HasField("unit") else None
    head = receiver.head if receiver.HasField("head") else None
    return effect.site, effect.layer, sender, receiver.part, receiver.layer, head


@pytest.mark.slow
@pytest.mark.parametrize("direction", [RESTORE, BREAK], ids=["restore", "break"])
@pytest.mark.parametrize("architecture", INPUTS)
def test_every_path(zoo: Host, folders: dict[str, Path], architecture: str, direction: int) -> None:
    loop = Loop(Hooked(Reference(folders[architecture], torch.float64)), Request(pairs=[PAIR], direction=direction))  # type: ignore[arg-type]
    changed, giver = (1, 0) if direction == RESTORE else (0, 1)
    wanted = path_values(loop, changed, giver)
    base, other = (loop.run(loop.runs[0][number])[0] for number in (changed, giver))
    found, summary = sweep(zoo, model=f"models/{architecture}", pairs=[PAIR], paths={}, direction=direction)
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        assert found[name].sum == pytest.approx(value - base, abs=CLOSE), name
        assert found[name].ratio_sum == pytest.approx((value - base) / (other - base), abs=1e-2), name
        assert (found[name].count, found[name].ratios) == (1, 1)
    assert (np.abs(np.array(list(wanted.values())) - base) > 1e-2).mean() > 0.3
    assert summary.layer_passes < summary.full_layer_passes


def test_noise_and_chosen_layers(zoo: Host, folders: dict[str, Path]) -> None:
    """Several draws, and several texts whose sums add up, however little memory there is."""
    loop = Loop(Hooked(Reference(folders["bert"], torch.float64)), Request(pairs=[NOISY]))
    base = np.mean([loop.run(run)[0] for run in loop.runs[0][1:]])
    chosen = {"sender_layers": [2, 1], "receiver_layers": [4, 2]}
    draws = [path_values(loop, number, 0, *chosen.values()) for number in (1, 2)]
    found, _ = sweep(zoo, pairs=[NOISY], paths=chosen)
    assert set(found) == set(draws[0])
    for name in found:
        assert found[name].sum == pytest.approx(np.mean([draw[name] for draw in draws]) - base, abs=CLOSE), name
    both, _ = sweep(zoo, pairs=[NOISY, PAIR], paths=chosen)
    alone, _ = sweep(zoo, pairs=[PAIR], paths=chosen)
    needed = int(refusal(zoo, "SweepSites", pairs=[NOISY, PAIR], paths=chosen, memory_bytes=1000).info.metadata["needed"])
    small, _ = sweep(zoo, pairs=[NOISY, PAIR], paths=chosen, memory_bytes=needed)
    for name in found:
        assert both[name].sum == pytest.approx(found[name].sum + alone[name].sum, abs=1e-4)
        assert small[name].sum == pytest.approx(both[name].sum, abs=1e-4)


def test_other_layers_are_refused_by_name(zoo: Host) -> None:
    fields = {"model": "models/modernbert", "pairs": [PAIR], "paths": {}}
    failure = refusal(zoo, "SweepSites", code=grpc.StatusCode.UNIMPLEMENTED, **fields)
    assert failure.info.reason == "SITE_UNSUPPORTED"
    assert "modernbert" in failure.message
