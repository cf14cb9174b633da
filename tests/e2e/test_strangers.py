"""Clients that nobody here wrote: grpcurl and buf curl by reflection alone, and Node by the .proto files."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope_service import contract
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.limits import RequestLimits
from bertscope_service.errors import InvalidArgument
from google.protobuf.json_format import MessageToDict
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from tests.support.installations import node_project
from tests.support.patience import granted
from tests.support.process import Process
from tools.protos import rules
from tools.protos.borders import Borders
from tools.protos.files import PROTOS, described

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LIMITS = RequestLimits(texts=8, text_characters=2000, candidates=20, tokens=1000)
FILL_MASK = "bertscope.v1.ClozeService/FillMask"
CAPITAL = '{"texts": ["Paris is the capital of [MASK]."], "top_k": 3}'
NO_MASK = '{"texts": ["No mask."]}'
SERVICES = {*contract.SERVICES, "grpc.channelz.v1.Channelz", "grpc.health.v1.Health"}

Done = subprocess.CompletedProcess[str]


def run(program: str, *arguments: str) -> Done:
    """Run one of the programs that lie beside Python; the test is skipped where there is none for this machine."""
    path = Path(sys.executable).with_name(program)
    if not path.exists():
        pytest.skip(f"{program} is not to be had for this machine")
    return subprocess.run([path, *arguments], capture_output=True, text=True, timeout=granted(60), check=False)


def grpcurl(target: str, *arguments: str, data: str = "{}") -> Done:
    return run("grpcurl", "-plaintext", "-d", data, target, *arguments)


def answer(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def truth(embedded: Process) -> dict[str, float]:
    """What our own stubs get: the three likeliest words and their probabilities."""
    reply = embedded.cloze.FillMask(
        cloze.FillMaskRequest(texts=["Paris is the capital of [MASK]."], top_k=3), timeout=granted(20)
    )
    return {one.token: one.probability for one in reply.results[0].masks[0].predictions}


def predictions(reply: Any) -> dict[str, float]:
    return {one["token"]: one["probability"] for one in reply["results"][0]["masks"][0]["predictions"]}


REFLECTION = {"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}


def test_grpcurl_finds_every_service(target: str) -> None:
    listed = set(run("grpcurl", "-plaintext", target, "list").stdout.split())
    assert listed - REFLECTION == SERVICES


def test_grpcurl_gets_the_answer(target: str, truth: dict[str, float]) -> None:
    assert predictions(answer(grpcurl(target, FILL_MASK, data=CAPITAL))) == pytest.approx(truth, abs=1e-6)


def test_grpcurl_reads_the_details_of_an_error(target: str) -> None:
    done = grpcurl(target, FILL_MASK, data=NO_MASK)
    assert done.returncode == 64 + 3  # INVALID_ARGUMENT
    assert '"domain":"bertscope","reason":"NO_MASK"' in done.stderr
    assert '"field":"texts[0]"' in done.stderr


@pytest.mark.parametrize("version", ["grpc-v1", "grpc-v1alpha"])
def test_buf_curl_finds_every_service(target: str, version: str) -> None:
    flags = ("--protocol", "grpc", "--http2-prior-knowledge", "--reflect-protocol", version, "--list-services")
    done = run("buf", "curl", *flags, f"http://{target}")
    assert set(done.stdout.split()) - REFLECTION == SERVICES


def test_node_takes_the_tour_wherever_the_example_is_copied(target: str, truth: dict[str, float], tmp_path: Path) -> None:
    folder = node_project(ROOT / "examples" / "node", tmp_path / "somewhere")
    done = subprocess.run(
        ["node", "tour.js", target], cwd=folder, capture_output=True, text=True, timeout=granted(60), check=False
    )
    assert done.returncode == 0, done.stderr
    shown = (folder / "README.md").read_text(encoding="utf-8")
    assert done.stdout in shown
    for token, probability in truth.items():
        assert f"cloze: {token} {probability:.4f}\n" in done.stdout


CHECKS = """
import { readFileSync } from "node:fs";
import { violations } from "./validate.js";
const requests = JSON.parse(readFileSync(0, "utf-8"));
console.log(JSON.stringify(requests.map(([type, request]) => violations(type, request).map(({ field }) => field))));
"""


def test_node_finds_what_the_server_finds_before_it_sends_a_request(tmp_path: Path) -> None:
    """Each rule of the contract is broken once. Those that only a server knows are left to it."""
    borders = Borders(rules.read(described(PROTOS)), LIMITS)
    made = [border for name in sorted(borders.contract.requests.values()) for border in borders.of(name)]
    # JSON has no NaN, and long lists take long: Python's validator tries them.
    small = [border for border in made if border.request.ByteSize() < 10_000 and "not a number" not in border.name]
    data = json.dumps([(border.request.DESCRIPTOR.name, MessageToDict(border.request)) for border in small])
    folder = node_project(ROOT / "examples" / "node", tmp_path / "somewhere")
    (folder / "checks.js").write_text(CHECKS)
    done = subprocess.run(
        ["node", "checks.js"], cwd=folder, input=data, capture_output=True, text=True, timeout=granted(60), check=False
    )
    assert done.returncode == 0, done.stderr
    for border, found in zip(small, json.loads(done.stdout), strict=True):
        if border.kept or not border.local:
            assert found == [], border.name
            continue
        with pytest.raises(InvalidArgument) as caught:
            check_fields(border.request, LIMITS)
        assert any(caught.value.field.startswith(field) for field in found), (border.name, found)
    assert sum(not border.kept and border.local for border in small) > 200


ASKS_AGAIN = """
import { connect } from "./connect.js";
import { askAgain, pauseBefore } from "./retries.js";
const [target, method, ...given] = process.argv.slice(2);
const services = connect(target);
const client = services[method === "fillMask" ? "ClozeService" : "ModelService"];
const pauses = [];
const options = { attempts: 4, random: () => 0.5, pause: async (time) => pauses.push(time), ...JSON.parse(given[0] ?? "{}") };
let outcome;
try {
  await askAgain(client, method, {}, options);
  outcome = "answered";
} catch (error) {
  outcome = error.code;
}
console.log(JSON.stringify({ outcome, pauses, bounds: [1, 5, 50].map((attempt) => pauseBefore(attempt, () => 1)) }));
"""


class Failing(grpc.GenericRpcHandler):
    """Fails all calls, or the first ones, with a status; counts them."""

    def __init__(self, code: grpc.StatusCode, times: int, retry_seconds: float | None = None) -> None:
        self.code, self.times, self.retry_seconds = code, times, retry_seconds
        self.calls = 0

    def service(self, handler_call_details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self.answer)

    def answer(self, _: bytes, context: Any) -> bytes:
        self.calls += 1
        if self.calls > self.times:
            return b""
        status = status_pb2.Status(code=self.code.value[0], message="try again")
        if self.retry_seconds is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromTimedelta(timedelta(seconds=self.retry_seconds))
            status.details.add().Pack(retry)
        context.abort_with_status(rpc_status.to_status(status))
        raise AssertionError("aborted")


def asked_again(folder: Path, failing: Failing, method: str, **options: Any) -> Any:
    server = grpc.server(ThreadPoolExecutor(2), handlers=[failing])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        command = ["node", "again.js", f"127.0.0.1:{port}", method, json.dumps(options)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=granted(60), check=False)
    finally:
        server.stop(0).wait()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_node_asks_again_with_pauses_that_grow_and_end(tmp_path: Path) -> None:
    folder = node_project(ROOT / "examples" / "node", tmp_path / "somewhere")
    (folder / "again.js").write_text(ASKS_AGAIN)
    full = Failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 2, retry_seconds=1.5)
    found = asked_again(folder, full, "fillMask")
    assert (found["outcome"], full.calls) == ("answered", 3)
    assert found["pauses"] == pytest.approx([1.5 + 0.1, 1.5 + 0.2])
    assert found["bounds"] == pytest.approx([0.2, 3.2, 10])
    gone = Failing(grpc.StatusCode.UNAVAILABLE, 1000)
    found = asked_again(folder, gone, "fillMask", attempts=2)
    assert (found["outcome"], len(found["pauses"]), gone.calls) == (14, 1, 2 * 5)  # each attempt is five of gRPC's own
    begun = Failing(grpc.StatusCode.UNAVAILABLE, 1000)
    found = asked_again(folder, begun, "unloadModel")
    assert (found["outcome"], found["pauses"], begun.calls) == (14, [], 1)
    without_time = Failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 1000)
    assert asked_again(folder, without_time, "fillMask") | {"bounds": None} == {"outcome": 8, "pauses": [], "bounds": None}
    too_late = Failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 1000, retry_seconds=60)
    assert asked_again(folder, too_late, "fillMask", seconds=30)["pauses"] == []
    assert too_late.calls == 1
