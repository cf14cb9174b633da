"""The load curve and the soak for a second each, on tiny models: what they print, and that they notice a wrong answer."""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2

from benchmarks.lib.report import document
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import write_small_bert
from benchmarks.load.curve import Plan as LoadPlan
from benchmarks.load.curve import goals, measure_curve
from benchmarks.load.report import faults, for_machines, remarks, table
from benchmarks.load.served import Served
from benchmarks.load.workload import Workload, cloze_workloads
from benchmarks.soak.asking import Role
from benchmarks.soak.head_questions import MODELS, write_heads
from benchmarks.soak.report import report_of
from benchmarks.soak.run import Plan as SoakPlan
from benchmarks.soak.run import Truths, find_truths, soak

pytestmark = pytest.mark.slow
NAMES = {Role.EMBEDDED: "models/small"} | {role: f"models/{role.value}" for role in MODELS}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("small")
    made = {name: write_small_bert(root / name, seed=seed) for seed, name in enumerate(("small", "first", "second"))}
    return made | write_heads(root, seed=9)


@pytest.fixture(scope="module")
def server(folders: dict[str, Path]) -> Iterator[Running]:
    with serving(*(f"--model={name}={folder}" for name, folder in folders.items())) as running:
        yield running


@pytest.fixture(scope="module")
def workload(folders: dict[str, Path]) -> Workload:
    (made,) = cloze_workloads("small", folders["small"], [2])
    return made


@pytest.fixture(scope="module")
def truths(server: Running, folders: dict[str, Path]) -> Truths:
    guests = {f"models/{name}": folders[name] for name in ("first", "second")}
    return asyncio.run(find_truths(server.target, NAMES, guests))


def test_a_reply_is_right_for_its_own_request_only(server: Running, workload: Workload) -> None:
    with grpc.insecure_channel(server.target) as channel:
        call: Any = channel.unary_unary("/bertscope.v1.ClozeService/FillMask")
        reply = call(workload.requests[0], timeout=20)
    assert workload.check(0, reply)
    assert not workload.check(1, reply)
    assert not workload.check(0, cloze_pb2.FillMaskResponse().SerializeToString())


def test_a_load_curve_has_right_answers_and_can_be_printed(server: Running, workload: Workload) -> None:
    plan = LoadPlan(loads=(2.0,), callers=(4,), seconds=0.4, deadline=0.4, clients=2)
    curve = measure_curve(Served(server, server.target), workload, plan)
    assert curve.capacity.rate > 0 and curve.after > 0
    (point,) = curve.points.values()
    assert (point.wrong, point.failed) == (0, {})
    assert point.offered > 0
    assert point.goodput + point.late + point.refused + point.not_sent == pytest.approx(point.offered)
    assert point.resident_bytes > 0
    assert faults(curve) == []
    nothing_answered = dict.fromkeys(point.latency, math.nan)
    late = replace(curve, points={2.0: replace(point, lateness=1.0, latency=nothing_answered)})
    assert len(remarks(late)) == 1 and not list(goals(late))
    for one in (curve, late):
        assert len(table(one).rows) == len(for_machines(one)["points"]) == 1


def test_a_soak_finds_no_fault(server: Running, truths: Truths) -> None:
    plan = SoakPlan(1.5, callers=4, connections=2, guest_pause=0.05, sample_seconds=0.2)
    outcome = asyncio.run(soak(server, NAMES, truths, plan))
    assert outcome.tally.faults == []
    assert outcome.tally.clean
    counts = outcome.tally.counts
    assert counts["LoadModel", "OK"] == counts["UnloadModel", "OK"] >= 1
    assert counts["LoadModel, replace", "OK"] >= 2
    assert sum(count for (kind, code), count in counts.items() if kind.startswith("FillMask") and code == "OK") > 0
    assert len(outcome.samples) >= 2
    found = report_of(outcome, plan)
    assert "0 wrong answers" in found.remarks[0] and not found.faults
    assert "FillMask, one text" in document({"soak": found})


def test_a_soak_notices_wrong_answers(server: Running, truths: Truths) -> None:
    """The true answers to questions of one kind dealt out to each other."""
    short = [key for key in truths.answers if key[0].kind == "FillMask, one text"]
    mixed = dict(zip(short, [truths.answers[key] for key in (*short[1:], short[0])], strict=True))
    plan = SoakPlan(0.6, callers=4, connections=2, guest_pause=0.05, sample_seconds=0.5)
    outcome = asyncio.run(soak(server, NAMES, replace(truths, answers={**truths.answers, **mixed}), plan))
    assert outcome.tally.wrong > 0
    assert {fault.removeprefix("FillMask, one text").partition(":")[2] for fault in outcome.tally.faults} == {
        " not the true answer"
    }
