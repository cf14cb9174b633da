"""The client and the command line compress and benchmark models of a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import bertscope
import pytest
from bertscope_workbench.command.app import run

from tests.support.harness import Host

TEXT = "Paris is the capital of [MASK]."
QUICK = {"lengths": [8], "batch_sizes": [1, 2], "min_runs": 3, "min_seconds": 0.0}


@pytest.fixture(scope="module")
def halved(host: Host) -> Iterator[bertscope.Model]:
    """models/bert with its first half of layers in 8 bits."""
    with bertscope.Client(host.target) as client:
        heard: list[bertscope.CompressionProgress] = []
        steps = [bertscope.keep_layers([0, 1]), bertscope.int8()]
        model = client.compress_model("halved", steps, model="bert", on_progress=heard.append)
        assert heard
        assert all(progress.done_steps <= progress.total_steps for progress in heard)
        yield model
        client.unload_model(model)


def test_a_report_of_real_models(host: Host, halved: bertscope.Model) -> None:
    objective = bertscope.MaskedLmLoss(["the cat sat on the mat", "paris is in france"])
    heard: list[bertscope.BenchmarkProgress] = []
    with bertscope.Client(host.target) as client:
        report = client.benchmark_models(
            [halved, "bert"],
            baseline="bert",
            agreement_texts=[TEXT, "the cat sat on the mat"],
            top_k=2,
            objective=objective,
            on_progress=heard.append,
            **QUICK,
        )
    assert heard
    assert all(0 <= progress.done <= 1 for progress in heard)
    small, whole = report.models
    assert (report.baseline, small.name, whole.name) == ("models/bert", "models/halved", "models/bert")
    assert report.machine.cpu
    assert whole.speed(8).latency_speedup is whole.agreement is whole.scores[0].retained is None
    assert small.compression == pytest.approx(whole.weight_bytes / small.weight_bytes)
    speed = small.speed(8)
    assert speed.runs >= 3
    assert 0 < speed.p50_seconds <= speed.p90_seconds <= speed.p95_seconds <= speed.p99_seconds
    ratio = speed.latency_speedup
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.distinguishable == (not ratio.low <= 1 <= ratio.high)
    assert small.agreement.k == 2
    assert 0 <= small.agreement.top_k <= 1
    assert small.agreement.divergence > 0
    assert [score.metric for score in small.scores] == ["loss"]
    assert small.scores[0].retained.value == pytest.approx(whole.scores[0].value / small.scores[0].value)
    assert small.steps == halved.compression
    assert [row["model"] for row in report.rows()] == ["models/halved", "models/bert"]


def test_what_the_server_refuses_is_typed(host: Host, halved: bertscope.Model) -> None:
    with bertscope.Client(host.target) as client:
        with pytest.raises(bertscope.InvalidArgument, match="layers"):
            client.compress_model("x", bertscope.keep_layers([0, 99]), model="bert")
        with pytest.raises(bertscope.AlreadyExists):
            client.compress_model("halved", bertscope.int8(), model="bert")
        with pytest.raises(bertscope.NotFound):
            client.benchmark_models("nobody")
        with pytest.raises(bertscope.InvalidArgument, match="nonsense"):
            client.benchmark_studies("nonsense").table()


@pytest.mark.asyncio
async def test_a_study_that_cannot_be_measured_has_its_reason(host: Host) -> None:
    async with bertscope.AsyncClient(host.target) as client:
        table = await client.benchmark_studies("WaLDORf").table()
    (study,) = table.studies
    assert (study.measured, study.published.technique) == (None, "distillation")
    assert study.not_measured
    assert (table.lengths, [row["system"] for row in table.rows()]) == ((), [study.published.system])


@pytest.fixture
def command(host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs a command against the server; its stdout if it succeeds, else its stderr."""
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)

    def run_command(*arguments: object, code: int = 0) -> str:
        assert run(list(map(str, arguments))) == code
        captured = capsys.readouterr()
        assert bool(captured.err) == bool(code)
        return captured.err if code else captured.out

    return run_command


def test_a_step_that_is_refused_is_named_as_it_was_written(command: Callable[..., str]) -> None:
    err = command("compress", "--steps", "int8,layers=0+99", "--model", "bert", "--name", "x", code=1)
    assert err.startswith("bertscope: --steps layers=0+99: layers[1]: ")
