"""CompressModel, BenchmarkModels and BenchmarkStudies over a socket: what arrives, and what happens when it does not."""

import itertools

import bertscope
import pytest
from bertscope.v1 import benchmark_pb2, common_pb2, model_pb2

from tests.support.patience import granted

TEXTS = bertscope.MaskedLmLoss(["a word"])


@pytest.fixture
def stuck(wait_for):
    """A stream that stops after its second message, until the call or the test ends."""

    def stream(messages):
        yield from itertools.islice(messages, 2)
        wait_for.wait(granted(60))

    return stream


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


def test_a_benchmark_tells_its_progress(server):
    arguments = {"baseline": "b", "agreement_texts": "a [MASK]", "objective": TEXTS, "lengths": 8, "others": "refuse"}
    heard: list[bertscope.BenchmarkProgress] = []
    with bertscope.Client(server.target) as client:
        report = client.benchmark_models(["a", "b"], on_progress=heard.append, **arguments)
    assert heard == [bertscope.BenchmarkProgress("warming up", 0), bertscope.BenchmarkProgress("latency at 32 tokens", 0.5)]
    assert (report.baseline, report.lengths, report.metrics) == ("models/b", (8,), ("accuracy", "loss"))
    assert report.model("b").speed(8).latency_speedup is None


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


class Enough(Exception):
    """What a listener may raise."""


each_call = pytest.mark.parametrize(
    "call",
    [
        lambda client, listen: client.compress_model("x", bertscope.int8(), on_progress=listen),
        lambda client, listen: client.benchmark_models("x", on_progress=listen),
        lambda client, listen: client.benchmark_studies(on_progress=listen).table(),
    ],
    ids=["compress", "benchmark", "studies"],
)


@each_call
def test_an_exception_of_the_listener_ends_the_call(server, stuck, call):
    def listen(progress):
        raise Enough

    server.stream = stuck
    with bertscope.Client(server.target) as client, pytest.raises(Enough):
        call(client, listen)
    assert server.ended.wait(granted(30))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda client: client.compress_model("x", bertscope.int8()), "without a model"),
        (lambda client: client.benchmark_models("x"), "without a report"),
        (lambda client: client.benchmark_studies().table(), "2 systems and no summary"),
    ],
)
def test_a_stream_without_its_end_is_an_invalid_reply(server, call, message):
    server.stream = lambda messages: iter(list(messages)[:-1])
    with bertscope.Client(server.target) as client, pytest.raises(bertscope.InvalidReply, match=message):
        call(client)


def test_messages_of_a_newer_server_are_passed_over(server):
    def with_unknown_ones(messages):
        for message in messages:
            yield type(message)()
            yield message

    server.stream = with_unknown_ones
    with bertscope.Client(server.target) as client:
        assert client.compress_model("x", bertscope.int8()).name == "models/x"
        assert client.benchmark_models("x").baseline == "models/x"
        assert len(client.benchmark_studies().table().studies) == 2
    assert {type(request) for request in server.requests} == {
        model_pb2.CompressModelRequest,
        benchmark_pb2.BenchmarkModelsRequest,
        benchmark_pb2.BenchmarkStudiesRequest,
    }
