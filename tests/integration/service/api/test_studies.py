"""BenchmarkStudies through gRPC, with baselines of a tiny size."""

import pytest
from bertscope.v1 import ablation_pb2, benchmark_pb2_grpc, common_pb2
from bertscope.v1 import benchmark_pb2 as benchmark
from bertscope_service.benchmark import studies
from bertscope_service.benchmark.shapes import Transformer

from tests.support.harness import CALL_SECONDS, Host

BRIEF = benchmark.Measurement(
    lengths=[4, 6], batch_sizes=[1, 2], min_runs=3, min_seconds=0, bootstrap=ablation_pb2.Bootstrap(resamples=100)
)


@pytest.fixture
def stub(host: Host, short_warm_up: None, monkeypatch: pytest.MonkeyPatch) -> benchmark_pb2_grpc.BenchmarkServiceStub:
    tiny = Transformer("bert", 2, 32, 48, 4, vocabulary=1000)
    monkeypatch.setattr(studies, "BASELINES", {"BERT-base": tiny})
    return benchmark_pb2_grpc.BenchmarkServiceStub(host.channel)


def ask(*systems: str, **more: object) -> benchmark.BenchmarkStudiesRequest:
    settings = {"measurement": BRIEF, "runtime": common_pb2.RUNTIME_TORCH, **more}
    return benchmark.BenchmarkStudiesRequest(systems=systems, **settings)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_row_for_each_system_beside_what_was_published(host: Host, stub: benchmark_pb2_grpc.BenchmarkServiceStub) -> None:
    names = ("BERT-48", "WaLDORf (Tian 2019)", "BiLSTM-soft")
    replies = list(stub.BenchmarkStudies(ask(*names), timeout=CALL_SECONDS))
    kinds = [reply.WhichOneof("event") for reply in replies]
    assert kinds[-1] == "summary" and kinds.count("summary") == 1
    done = [reply.progress.done for reply in replies if reply.HasField("progress")]
    assert done == sorted(done) and "BERT-48 (1 of 3): building" in [reply.progress.stage for reply in replies]
    small, other, lstm = (reply.row for reply in replies if reply.HasField("row"))

    published = small.published
    assert (published.system, published.technique) == ("BERT-48 (Zhao 2019)", "distillation")
    assert (published.compression, published.performance, published.speedup) == ("62", "87", "77")
    assert (published.relative_to, published.evaluated_on) == ("BERT-base", "MNLI MRPC SST-2")
    assert small.built == "bert, 12 layers x 48, 12 heads, vocabulary 4,928" and small.baseline == "BERT-base"
    measured, baseline = small.measured, small.baseline_measured
    assert measured.parameters == 607_952 and measured.weight_bytes == 4 * 607_952
    assert measured.nonzero_parameters <= measured.parameters and measured.resident_bytes > measured.weight_bytes
    assert measured.compression == pytest.approx(baseline.weight_bytes / measured.weight_bytes)
    assert measured.provenance.runtime == common_pb2.RUNTIME_TORCH and measured.provenance.device == "cpu"
    assert [speed.length for speed in measured.speeds] == [4, 6] and baseline.compression == 1
    for speed, of_baseline in zip(measured.speeds, baseline.speeds, strict=True):
        assert speed.latency_speedup.value == pytest.approx(of_baseline.p50_seconds / speed.p50_seconds)
        assert speed.throughput_speedup.value > 0 and not of_baseline.HasField("latency_speedup")

    assert other.not_measured.startswith("it has convolutions") and not other.built and not other.HasField("measured")
    assert "word embeddings" in lstm.built and lstm.measured.speeds[0].runs >= 3
    summary = replies[-1].summary
    assert summary.machine.cores >= 1 and summary.seconds > 0
    assert len(host.server.registry.entries()) == 3  # those that were there


def test_nothing_measured_leaves_the_machine_out(stub: benchmark_pb2_grpc.BenchmarkServiceStub) -> None:
    row, summary = list(stub.BenchmarkStudies(ask("WaLDORf"), timeout=CALL_SECONDS))[-2:]
    assert row.row.not_measured and not summary.summary.HasField("machine")
