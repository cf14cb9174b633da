"""Sweeps, rankings, compressions and benchmarks over a socket: what arrives, when, and what happens when it does not."""

import bertscope
import pytest
from bertscope.v1 import common_pb2
from google.rpc import code_pb2

PROMPTS = bertscope.ClozePrompts([("a [MASK]", "b")])


@pytest.mark.asyncio
async def test_an_async_sweep_has_a_start_once_it_has_begun(server):
    async with bertscope.AsyncClient(server.target) as client:
        async with client.sweep_heads(PROMPTS) as sweep:
            assert (await sweep.started()).total == 12
        never_begun = client.sweep_heads(PROMPTS)
        await never_begun.aclose()
        for closed in (sweep.table, never_begun.started):
            with pytest.raises(bertscope.Cancelled):
                await closed()
    assert len(server.requests) == 1


def test_an_error_is_raised_by_whatever_is_asked(server, abort):
    server.fail = abort(code_pb2.UNIMPLEMENTED, "models/fake has no masked-LM head")
    with bertscope.Client(server.target) as client:
        sweep = client.sweep_heads(PROMPTS)
        for _ in range(2):
            with pytest.raises(bertscope.Unimplemented, match="masked-LM head"):
                _ = sweep.start
        with pytest.raises(bertscope.Unimplemented):
            sweep.table()


@pytest.mark.slow
def test_long_calls_outlast_the_timeout_of_the_client(server, wait_for):
    server.fail = lambda context: wait_for.wait(0.3)
    with bertscope.Client(server.target, timeout=0.05) as client:
        assert client.rank_heads(PROMPTS).items == 7
        assert client.prune_heads("x", {0: 1}).name == "models/x"
        with pytest.raises(bertscope.DeadlineExceeded):
            client.rank_heads(PROMPTS, timeout=0.05)
        with pytest.raises(bertscope.DeadlineExceeded):
            client.sweep_heads(PROMPTS, timeout=0.05).table()
        with pytest.raises(bertscope.DeadlineExceeded):
            client.classify("a")


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
