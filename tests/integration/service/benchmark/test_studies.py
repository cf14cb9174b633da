"""BenchmarkStudies' job, on systems so small that each takes a fraction of a second."""

import asyncio
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.benchmark.build import Builder, Built, Check, library, plan_steps
from bertscope_service.benchmark.inputs import Measurement
from bertscope_service.benchmark.published import Published
from bertscope_service.benchmark.shapes import Recurrent, Transformer
from bertscope_service.benchmark.studies import Row, Studies
from bertscope_service.benchmark.systems import RECIPES, Recipe, System
from bertscope_service.checkpoints.steps import (
    EliminateTokens,
    OnnxExport,
    PruneMagnitude,
    RemoveFeedForward,
    RemoveHeads,
    Step,
)
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.engine.engine import Engine
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models.loaded import LoadedModel, LoadSpec

from tests.support.exports import READ
from tests.support.hosted import running

BASE = Transformer("bert", 2, 32, 48, 4, vocabulary=300)
SMALL = Transformer("distilbert", 1, 16, 24, 2, vocabulary=200)
BASELINES = {"BERT-base": BASE, "mBERT": Transformer("bert", 2, 32, 48, 4, vocabulary=900)}
BRIEF = Measurement(lengths=(4,), batch_sizes=(1, 2), min_runs=3, min_seconds=0.0, bootstrap=Bootstrap(resamples=100))
BUILDER = Builder(torch.device("cpu"), "fp32", READ)


def system(name: str, recipe: Recipe | None, not_measured: str = "") -> System:
    return System(Published(name, "distillation", "2", "90", "3", "BERT-base", "GLUE"), recipe, not_measured)


@dataclass
class Watched:
    """A builder that remembers what it built without holding it, and how many models there were at most."""

    build_one: Callable[..., Built] = BUILDER.build
    built: list[tuple[str, str]] = field(default_factory=list)
    alive: list[weakref.ref[Any]] = field(default_factory=list)
    most: int = 0

    def build(self, name: str, shape: Transformer | Recurrent, steps: Sequence[Step], runtime: str, check: Check) -> Built:
        found = self.build_one(name, shape, steps, runtime, check)
        self.built.append((name, found.model.encoder.runtime))
        self.alive.append(weakref.ref(found.model.encoder))
        self.most = max(self.most, self.count)
        return found

    @property
    def count(self) -> int:
        return sum(one() is not None for one in self.alive)


@dataclass
class Seen:
    """What a reader is told: progress, and of each row what can be said of it without its models."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)
    numbers: list[dict[str, Any]] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    done: list[float] = field(default_factory=list)

    def report(self, stage: str, done: float) -> None:
        self.stages.append(stage)
        self.done.append(done)

    def deliver(self, row: Row) -> None:
        self.rows.append((row.system.published.name, row.built, row.not_measured))
        found = row.comparison
        if found is not None:
            baseline, model = found.measured.models
            self.numbers.append(
                {
                    "size": found.baseline.weight_bytes / found.model.weight_bytes,
                    "runtimes": (found.baseline.encoder.runtime, found.model.encoder.runtime),
                    "speedups": (baseline.speeds[0].latency_speedup, model.speeds[0].latency_speedup),
                    "nonzero": model.nonzero_parameters,
                    "parameters": found.model.encoder.shape.parameters,
                }
            )


def studies(systems: Sequence[System], engine: Engine, watched: Watched, *, runtime: str = "torch", **more: Any) -> Studies:
    return Studies(systems, more.get("measurement", BRIEF), runtime, engine, watched.build, BASELINES)


def run(systems: Sequence[System], runtime: str = "torch", **more: Any) -> tuple[Seen, Watched]:
    seen, watched = Seen(), Watched(**more)

    async def main() -> None:
        async with running() as engine:
            await studies(systems, engine, watched, runtime=runtime).run(seen.report, seen.deliver)

    asyncio.run(main())
    return seen, watched


def test_rows_come_in_order_and_two_models_are_in_memory_at_most() -> None:
    systems = [
        system("One (Somebody 2019)", Recipe(SMALL, remark="much smaller")),
        system("Two", None, "nobody knows how"),
        system("Three", Recipe(Recurrent(100, 12, 5, 9, 2))),
        system("Four", Recipe(BASE, baseline="mBERT")),
    ]
    seen, watched = run(systems)
    assert seen.rows == [
        ("One", "distilbert, 1 layer x 16, 2 heads, vocabulary 200; much smaller", ""),
        ("Two", "", "nobody knows how"),
        ("Three", "bilstm, 1 layer of 2 x 5 over embeddings of 12, 9 in the classifier", ""),
        ("Four", "bert, 2 layers x 32, 4 heads, vocabulary 300", ""),
    ]
    # A baseline is built when it is needed and stays as long as it is.
    assert [name for name, _ in watched.built] == ["One", "BERT-base", "Three", "Four", "mBERT"]
    assert (watched.most, watched.count) == (2, 0)
    assert seen.done == sorted(seen.done) and seen.done[0] >= 0 and seen.done[-1] <= 1
    assert seen.stages[0] == "One (1 of 4): building" and "Three (3 of 4): latency at 4 tokens" in seen.stages
    for numbers in seen.numbers:
        of_baseline, of_model = numbers["speedups"]
        assert of_baseline is None and of_model.low <= of_model.value <= of_model.high
    # 600 embeddings of 32 numbers more, and their biases.
    assert seen.numbers[2]["size"] == pytest.approx(1 + 600 * 33 / seen.numbers[2]["parameters"])


@pytest.mark.slow
def test_what_is_done_to_a_shape_is_done_by_compress_model() -> None:
    half = Recipe(BASE, (PruneMagnitude(0.5),), remark="zeros are stored")
    tokens = Recipe(BASE, (EliminateTokens((0.5, 0.5)),))
    seen, watched = run([system("Half", half), system("Tokens", tokens)])
    assert seen.rows[0][1].startswith("bert, 2 layers x 32, 4 heads, vocabulary 300; set 50.0% of the weights")
    assert seen.rows[0][1].endswith("; zeros are stored")
    # Half of the weights inside the layers: 4 x 32 x 32 and 2 x 32 x 48 of each.
    zeros = seen.numbers[0]["parameters"] - seen.numbers[0]["nonzero"]
    assert zeros == 2 * (4 * 32 * 32 + 2 * 32 * 48) // 2
    assert seen.numbers[0]["size"] == pytest.approx(1, rel=0.1)
    assert seen.rows[1][1] != seen.rows[0][1] and not seen.rows[1][2]
    assert watched.count == 0


def test_pruning_that_removes_makes_the_weights_fewer() -> None:
    steps = RemoveHeads({0: (0, 1), 1: (2, 3)}), RemoveFeedForward(0.65)
    seen, _ = run([system("Removed", Recipe(BASE, steps))])
    assert "; removed 4 of 8 heads; " in seen.rows[0][1] and "feed-forward units" in seen.rows[0][1]
    # Of each layer half of four projections with three of their biases, and 31 of 48 units with their biases.
    gone = 2 * (4 * 32 * 16 + 3 * 16 + 31 * (2 * 32 + 1))
    assert seen.numbers[0]["size"] == pytest.approx(1 + gone / seen.numbers[0]["parameters"], rel=0.1)
    assert seen.numbers[0]["size"] > 1.1


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_every_recipe_can_be_done_on_a_cpu(runtime: str) -> None:
    shapes = {name: recipe for name, recipe in RECIPES.items() if isinstance(recipe.shape, Transformer)}
    assert len(shapes) == 24
    for name, recipe in shapes.items():
        runs = library(recipe.shape, recipe.steps, runtime, BUILDER.device)
        planned = plan_steps(LoadSpec(name, "", "cpu", "fp32", runtime=runs), recipe.shape, recipe.steps)
        assert (planned.runtime == "onnx") == (runs == "onnx")
        assert {step.name for step in recipe.steps} <= {step.name for step in planned.steps}


def test_onnx_gets_the_same_model() -> None:
    """Saved as a checkpoint, to be exported; what is read from that gives what the network in memory gives."""
    asked: list[LoadSpec] = []

    def read(spec: LoadSpec, report: Any) -> LoadedModel:
        asked.append(spec)
        assert spec.derivation is not None
        return READ(replace(spec, runtime="torch", source=spec.derivation.source, derivation=None), report)

    shape, rows = replace(BASE, layers=1), [TokenSequence(list(range(2, 2 + length)), [0] * length) for length in (9, 5)]
    scores = []
    for runtime in ("torch", "onnx"):
        built = Builder(BUILDER.device, "fp32", read).build("One (Somebody 2019)", shape, (), runtime, lambda: None)
        assert built.description == str(shape) and built.model.spec.id == "One-Somebody-2019-"
        encoder = built.model.encoder
        with torch.inference_mode():
            state = encoder.begin(rows)
            encoder.advance(state, 1)
            scores.append(encoder.logits(state, torch.tensor([0, 1]), torch.tensor([3, 4])))
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-5)
    assert scores[0].std() > 1e-3
    (spec,) = asked
    assert spec.runtime == "onnx" and spec.derivation is not None and spec.derivation.steps == (OnnxExport(),)
    assert not Path(spec.derivation.source).exists(), "the checkpoint is gone"


def test_what_can_not_be_built_is_said_in_its_row_and_the_others_follow() -> None:
    """A system, or its baseline."""

    def build(name: str, *rest: Any) -> Built:
        if name in ("mBERT", "Large"):
            raise FailedPrecondition(f"{name} does not fit into the memory of cpu now", "DEVICE_MEMORY")
        return BUILDER.build(name, *rest)

    systems = [system("Multi", Recipe(SMALL, baseline="mBERT")), system("Large", Recipe(BASE)), system("Small", Recipe(SMALL))]
    seen, watched = run(systems, build_one=build)
    why = "there is no mBERT to compare it with: mBERT does not fit into the memory of cpu now"
    assert seen.rows[0] == ("Multi", str(SMALL), why)
    assert seen.rows[1] == ("Large", str(BASE), "Large does not fit into the memory of cpu now")
    assert seen.rows[2][0] == "Small" and not seen.rows[2][2] and len(seen.numbers) == 1
    assert watched.count == 0
