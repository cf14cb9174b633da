"""CompressModel, BenchmarkModels and BenchmarkStudies over a socket: what arrives, and what happens when it does not."""

import bertscope
import pytest
from bertscope.v1 import common_pb2


def test_a_compression_tells_its_progress(server):
    steps = [bertscope.keep_layers([0, 2]), bertscope.int8()]
    expected = [("layers", 0, 3), ("int8", 1, 3), ("loading", 2, 3)]
    heard: list[bertscope.CompressionProgress] = []
    with bertscope.Client(server.target) as client:
        model = client.compress_model("small", steps, model="fake", folder="/m", on_progress=heard.append)
        assert client.compress_model("small", bertscope.onnx()).compression[0].step == "onnx"
    assert [(each.detail, each.done_steps, each.total_steps) for each in heard] == expected
    assert (model.name, [step.description for step in model.compression]) == ("models/small", ["did layers", "did int8"])
    first, _ = server.requests
    assert (first.model, first.model_id, first.folder) == ("models/fake", "small", "/m")


@pytest.mark.asyncio
async def test_both_clients_measure_studies(server):
    heard: list[bertscope.BenchmarkProgress] = []
    with bertscope.Client(server.target) as client:
        studies = client.benchmark_studies(heavy=True, runtime="onnx", min_seconds=0.5, on_progress=heard.append)
        assert server.requests == []  # The call begins when the first row is asked for.
        first = next(studies)
        assert studies.summary.seconds == 99
        table = studies.table()
        assert list(studies) == []
    assert [progress.stage for progress in heard] == ["DistilBERT", "WaLDORf"]
    assert table.studies[0] is first
    assert (first.measured.speed(32).latency_speedup.value, table.studies[1].not_measured) == (1.9, "has convolutional layers")
    async with bertscope.AsyncClient(server.target) as client:
        other = client.benchmark_studies(heavy=True, runtime="onnx", min_seconds=0.5)
        assert [study async for study in other] == list(table.studies)
        assert await other.ended() == table.summary
        assert await other.table() == table
    assert server.requests[0] == server.requests[1]
    assert (server.requests[0].heavy, server.requests[0].runtime) == (True, common_pb2.RUNTIME_ONNX)
