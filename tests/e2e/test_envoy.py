"""Callers behind Envoy: answers stay right while a server goes, and plain HTTP gets what gRPC gets."""

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bertscope
import grpc
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import attention_pb2_grpc, cloze_pb2_grpc
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from google.protobuf import json_format
from google.rpc import status_pb2

from tests.support.observed import Asker, metric
from tests.support.patience import granted, wait_until
from tests.support.process import Process
from tests.support.proxy import CONFIGURATION, Proxy, envoy

pytestmark = pytest.mark.slow

STREAMS = 3
CAPITALS = [f"{city} is the capital of [MASK]." for city in ("Paris", "Rome", "Madrid", "Tokyo")]
LONG = common.TextInput(text="the old man and the sea " * 100)
MAPS = attention.ExtractAttentionRequest(inputs=[LONG], layers=[0, 5], truncate=True)
MAPS_BYTES = 2 * 12 * 512 * 512 * 4


@pytest.fixture
def http(gateway: str) -> str:
    """Where the embedded model is asked over plain HTTP."""
    return f"http://{gateway}"


def ask(url: str, body: object = None, **headers: str) -> Any:
    """The JSON that a GET, or a POST of a body as JSON, is answered with; one document for each line."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=granted(30)) as reply:
        assert reply.headers["content-type"] == "application/json"
        return [json.loads(line) for line in reply]


def filled(reply: cloze.FillMaskResponse) -> dict[str, float]:
    """Probability of each prediction for the only mask."""
    (result,) = reply.results
    return {one.token: one.probability for one in result.masks[0].predictions}


def answered(process: Process) -> float:
    """How many FillMask calls a server has answered well."""
    return metric(process, "bertscope_requests_total", code="OK", method="FillMask")


def test_the_configuration_is_valid_as_it_is() -> None:
    command: list[str | Path] = [envoy(), "--mode", "validate", "--config-path", CONFIGURATION.name]
    done = subprocess.run(command, cwd=CONFIGURATION.parent, capture_output=True, text=True, timeout=granted(30), check=False)
    assert done.returncode == 0, done.stderr
    assert f"configuration '{CONFIGURATION.name}' OK" in done.stdout + done.stderr


@pytest.mark.parametrize("path", ["/v1/models/bertscope-mini:fillMask", "/v1:fillMask"])
def test_json_gets_the_answer_that_grpc_gets(http: str, embedded: Process, path: str) -> None:
    (answer,) = ask(http + path, {"texts": CAPITALS[:1], "topK": 3})
    reply = embedded.cloze.FillMask(cloze.FillMaskRequest(texts=CAPITALS[:1], top_k=3), timeout=granted(20))
    assert filled(json_format.ParseDict(answer, cloze.FillMaskResponse())) == pytest.approx(filled(reply), abs=1e-6)
    assert answer["provenance"]["model"] == "models/bertscope-mini"


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("/v1:fillMask", {"texts": ["No mask."]}, 400, "NO_MASK"),
        ("/v1/models/nowhere:fillMask", {"texts": CAPITALS}, 404, "MODEL_NOT_FOUND"),
        ("/v1:classify", {"inputs": [{"text": "Good."}]}, 501, "NO_CLASSIFICATION_HEAD"),
        ("/v1:nothing", {}, 404, None),
        ("/nothing", None, 404, None),
        ("/v1/models?x=1", None, 400, None),
        ("/v1:fillMask", {"topK": 'a "b"'}, 400, None),
    ],
)
def test_an_error_is_json_with_its_details(http: str, path: str, body: object, status: int, reason: str | None) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(http + path, body)
    assert caught.value.code == status
    error = json.load(caught.value)
    infos = [detail for detail in error["details"] if detail["@type"].endswith("google.rpc.ErrorInfo")]
    assert [(info["domain"], info["reason"]) for info in infos] == ([("bertscope", reason)] if reason else [])
    assert error["code"] and error["message"]


def health(target: str, path: str = "/healthz") -> int:
    try:
        with urllib.request.urlopen(f"http://{target}{path}", timeout=granted(20)) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_its_health_is_that_of_the_servers(embedded: Process, launch: Callable[..., Process], tmp_path: Path) -> None:
    """One server of two is enough."""
    leaving = launch()
    leaving.wait_until_serving()
    both, one = [embedded.target, leaving.target], [leaving.target]
    with Proxy(tmp_path, both) as before_two, Proxy(tmp_path, one) as before_one:
        assert health(before_two.target) == health(before_one.target) == 200
        assert health(before_two.target, "/healthzz") == 404
        leaving.popen.send_signal(signal.SIGTERM)
        wait_until(lambda: health(before_one.target) == 503, "Envoy knows that no server serves")
        wait_until(lambda: not before_two.health()[leaving.target], "Envoy takes it out")
        assert health(before_two.target) == 200


def test_a_path_and_a_body_that_name_different_models_are_refused(http: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(f"{http}/v1/models/bertscope-mini:fillMask", {"model": "models/other", "texts": CAPITALS})
    assert caught.value.code == 400
    assert b"conflicting" in caught.value.read()


def test_a_deadline_in_a_header_is_kept(http: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(f"{http}/v1:fillMask", {"texts": CAPITALS}, **{"grpc-timeout": "1u"})
    # The deadline passes on the way, or it reaches the server a moment before, which rejects what it can't answer in time.
    assert caught.value.code == 504 or (caught.value.code == 429 and b"DEADLINE_UNREACHABLE" in caught.value.read())


def test_a_stream_comes_as_one_message_a_line(http: str, embedded: Process) -> None:
    request = attention.ExtractAttentionRequest(inputs=[common.TextInput(text="The cat sat.")], layers=[1], heads=[0, 3])
    truth = list(embedded.attention.ExtractAttention(request, timeout=granted(20)))
    lines = ask(f"{http}/v1:extractAttention", json_format.MessageToDict(request))
    assert [json_format.ParseDict(line, attention.ExtractAttentionResponse()) for line in lines] == truth


def test_a_stream_that_fails_on_its_way_says_so_in_its_trailers(http: str) -> None:
    command = ["curl", "--silent", "--show-error", "--max-time", "30", "--dump-header", "-", "--output", "/dev/null"]
    command += ["--data", '{"source": "/nowhere/at/all", "modelId": "lost"}', f"{http}/v1/models:load"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=granted(40))
    assert "HTTP/1.1 200 OK" in done.stdout
    assert "grpc-status: 9" in done.stdout
    assert "/nowhere/at/all" in done.stdout


def test_a_full_envoy_refuses_short_calls_and_nothing_else(embedded: Process, tmp_path: Path) -> None:
    with Proxy(tmp_path, [embedded.target], most_calls=0) as proxy, bertscope.Client(proxy.target) as client:
        with pytest.raises(bertscope.ResourceExhausted) as caught:
            client.fill_mask(CAPITALS[0])
        assert caught.value.reason == "SERVER_LIMIT"
        assert caught.value.retry_after == pytest.approx(0.5)
        with pytest.raises(urllib.error.HTTPError) as answer:
            ask(f"http://{proxy.target}/v1:fillMask", {"texts": CAPITALS})
        assert answer.value.code == 429
        status = json_format.Parse(answer.value.read(), status_pb2.Status())
        assert (status.code, status.message) == (grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], caught.value.message)
        client.wait_until_serving(20)
        assert client.list_models()
        assert next(iter(client.extract_attention("The cat sat.", layers=[1])))
        with client.sweep_heads(bertscope.Divergence(CAPITALS[:1]), sets=[{0: [0]}]) as sweep:
            assert len(list(sweep)) == 1


def received(stream: Any) -> int | grpc.StatusCode:
    """Bytes of maps of a stream that came to its end, or the status that ended it."""
    try:
        return sum(len(response.chunk.data) for response in stream)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_no_caller_of_two_servers_notices_that_one_goes(
    embedded: Process, launch: Callable[..., Process], tmp_path: Path, number: signal.Signals
) -> None:
    leaving = launch()
    leaving.wait_until_serving()
    requests = [cloze.FillMaskRequest(texts=[text], top_k=3) for text in CAPITALS]
    truth = [filled(embedded.cloze.FillMask(request, timeout=granted(20))) for request in requests]
    earlier = answered(embedded)
    with Proxy(tmp_path, [embedded.target, leaving.target]) as proxy, grpc.insecure_channel(proxy.target) as channel:
        streams = [
            attention_pb2_grpc.AttentionServiceStub(channel).ExtractAttention(MAPS, timeout=granted(60)) for _ in range(STREAMS)
        ]
        stub = cloze_pb2_grpc.ClozeServiceStub(channel)
        askers = [Asker(lambda request=request: filled(stub.FillMask(request, timeout=granted(30)))) for request in requests]  # type: ignore[misc]

        def all_are_answered_on() -> bool:
            return all(len(asker.answers) > begun + 20 or asker.errors for asker, begun in zip(askers, before, strict=True))

        wait_until(lambda: answered(leaving) > 10 and answered(embedded) > earlier + 10, "both servers answer")
        leaving.popen.send_signal(number)
        before = [len(asker.answers) for asker in askers]
        sizes = {received(stream) for stream in streams}
        wait_until(lambda: not proxy.health()[leaving.target], "Envoy takes it out")
        wait_until(all_are_answered_on, "the other server answers all")
        for asker in askers:
            asker.stop()
    assert [asker.errors for asker in askers] == [[]] * len(askers)
    for asker, right in zip(askers, truth, strict=True):
        assert all(answer == pytest.approx(right, abs=1e-5) for answer in asker.answers)
    # A stream that has begun can't be asked again for the caller: it ends whole, or Envoy resets it, which is INTERNAL to gRPC.
    assert sizes <= ({MAPS_BYTES} if number is signal.SIGTERM else {MAPS_BYTES, grpc.StatusCode.INTERNAL})
    assert leaving.end() == (0 if number is signal.SIGTERM else -signal.SIGKILL)
