"""The server as a process: starting, answering, stopping, and dying."""

import fcntl
import json
import os
import re
import shutil
import signal
import time
import urllib.request
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import bertscope as client
import grpc
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2, site_pb2
from bertscope.v1 import model_pb2 as model
from bertscope_service.checkpoints.locked_folders import SAVING_PREFIX
from bertscope_service.checkpoints.temporary_folder import PREFIX as SCRATCH
from bertscope_service.models.kept_exports import LOCK
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.forked import Forked, serve_and_continue
from tests.support.observed import metric
from tests.support.patience import granted, wait_until
from tests.support.process import Process

servers_of_its_own = pytest.mark.slow
"""Starts servers of its own, some seconds each; `make test` starts, asks and stops one."""

Status = health_pb2.HealthCheckResponse
CAPITAL = cloze.FillMaskRequest(texts=["Paris is the capital of [MASK]."])
LONG = "the old man and the sea and the dog and the house near the river " * 40
"""Cut to 512 tokens: 75 MB of maps, more than any transport buffers."""

LONG_BYTES = 6 * 12 * 512 * 512 * 4


def long_stream(process: Process, texts: int = 2) -> Any:
    inputs = [common_pb2.TextInput(text=LONG) for _ in range(texts)]
    request = attention.ExtractAttentionRequest(inputs=inputs, truncate=True)
    return process.attention.ExtractAttention(request, timeout=granted(60))


def one_line(process: Process) -> str:
    """What a server that could not begin said: no trace, and at its end one line that tells why. On a busy machine it may warn
    that its loop is held."""
    assert "Traceback" not in process.text
    told = re.compile(r"\d{4}-\d\d-\d\dT\S+ (?:INFO|WARNING the event loop) ")
    lines = [line for line in process.text.splitlines() if not told.match(line)]
    assert len(lines) == 1, process.text
    assert lines[0].startswith("bertscope serve: ")
    return lines[0]


@servers_of_its_own
def test_servers_that_can_not_begin_say_why_in_one_line(launch: Callable[..., Process], tmp_path: Path) -> None:
    lost = launch("--model", "/nowhere/at/all")
    offline = launch("--model", "nobody/nothing", HF_HOME=str(tmp_path))
    assert [process.end() for process in (lost, offline)] == [1, 1]
    assert lost.text == "bertscope serve: the server has no folder /nowhere/at/all\n"  # before PyTorch is imported
    assert "nobody/nothing is not in the server's cache" in one_line(offline)
    assert "offline" in one_line(offline)


def test_a_start_says_what_runs_and_how_long_each_stage_took(embedded: Process) -> None:
    process = embedded
    seconds = r"\d+\.\d\d s"
    version = re.escape(client.__version__)
    wanted = [
        rf"bertscope {version} starts: Python \S+, process {process.popen.pid}",
        rf"listening on 127\.0\.0\.1:{process.ports['port']}, metrics on port {process.ports['metrics_port']}, after {seconds}",
        r"every process on this machine .*",
        rf"imported after {seconds}: PyTorch \S+, ONNX Runtime \S+, transformers \S+, grpcio \S+",
        r"models run on cpu with 1 thread, by torch",
        r"loading models/bertscope-mini from bertscope-mini",
        rf"models/bertscope-mini was read in {seconds}",
        rf"models/bertscope-mini ran for the first time in {seconds}",
        r"models/bertscope-mini is ready on cpu in fp32, run by torch",
        rf"serving, {seconds} after the start",
    ]
    rest = iter([line.partition(" INFO ")[2] for line in process.text.splitlines()])
    for pattern in wanted:
        assert any(re.fullmatch(pattern, line) for line in rest), f"{pattern!r} is not in its place in\n{process.text}"
    with urllib.request.urlopen(f"http://127.0.0.1:{process.ports['metrics_port']}/metrics", timeout=granted(10)) as page:
        assert b"bertscope_models" in page.read()


@servers_of_its_own
@pytest.mark.parametrize("flag", ["--port", "--metrics-port", "--host", "--metrics-host"])
def test_an_address_that_can_not_be_had_is_told_before_anything_large_is_imported(
    embedded: Process, launch: Callable[..., Process], flag: str
) -> None:
    taken = str(embedded.ports["metrics_port"])
    value = taken if flag.endswith("port") else "192.0.2.1"
    process = launch(flag, value, PYTHONPROFILEIMPORTTIME="1")  # each import is a line on standard error
    assert process.end() == 1
    *lines, last = process.text.splitlines()
    assert last.startswith("bertscope serve: can't ")
    assert value in last
    assert f" {flag}" in last
    imported = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert "bertscope_service.settings" in imported
    assert not imported & {"torch", "transformers", "grpc"}


@servers_of_its_own
def test_main_leaves_the_process_that_called_it_alone(tmp_path: Path) -> None:
    """Only the command ends its process: a program that runs a server in its own goes on afterwards."""
    output = tmp_path / "output"
    flags = ["--model", str(tmp_path), "--port", "0", "--metrics-port", "0"]
    assert Forked(flags, os.environ, output, serve_and_continue).wait(granted(100)) == 0
    refused, left = output.read_text().splitlines()[-2:]
    assert (refused[:17], left) == ("bertscope serve: ", "1 []") and "config.json does not exist" in refused


@pytest.mark.slow
def test_models_get_the_names_asked_or_their_folders_and_sigterm_finishes_what_runs(
    launch: Callable[..., Process], tmp_path: Path
) -> None:
    package = Path(str(resources.files("bertscope_service")))
    folder = Path(shutil.copytree(package / "embedded" / "bertscope-mini", tmp_path / "copied"))
    process = launch("--model", "named=bertscope-mini", "--model", str(folder), "--log-format", "json")
    process.wait_until_serving()
    listed = process.models.ListModels(model.ListModelsRequest(), timeout=granted(20)).models
    found = [(entry.name, entry.source) for entry in listed]
    assert found == [("models/named", "bertscope-mini"), ("models/copied", str(folder))]
    process.cloze.FillMask(CAPITAL, timeout=granted(20), metadata=(("x-request-id", "mine"),))
    stub: Any = health_pb2_grpc.HealthStub(process.channel)
    watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=granted(60))
    assert next(watch).status == Status.SERVING
    stream = long_stream(process)
    first = next(stream)
    process.popen.send_signal(signal.SIGTERM)
    assert next(watch).status == Status.NOT_SERVING
    watch.cancel()

    def is_refused() -> bool:
        try:
            process.cloze.FillMask(CAPITAL, timeout=granted(20))
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            return True
        return False

    wait_until(is_refused, "new calls are refused")
    assert process.popen.poll() is None
    received = sum(len(response.chunk.data) for response in [first, *stream])
    assert received == 2 * LONG_BYTES
    assert process.end(30) == 0
    lines = [json.loads(line) for line in process.text.splitlines()]
    assert not any("trace" in line for line in lines)
    assert any("every process on this machine may" in line["message"] for line in lines)
    (line,) = [line for line in lines if line.get("request_id") == "mine"]
    assert (line["method"], line["code"], line["level"]) == ("FillMask", "OK", "INFO")


@servers_of_its_own
def test_a_second_signal_cuts_the_grace_short(launch: Callable[..., Process]) -> None:
    process = launch("--grace-seconds", "600")
    process.wait_until_serving()
    stream = long_stream(process)
    next(stream)
    process.popen.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping" in process.text, "it stops")
    assert process.popen.poll() is None
    process.popen.send_signal(signal.SIGINT)
    assert process.end(30) == 0
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "Traceback" not in process.text


@servers_of_its_own
def test_a_stop_ends_in_time_behind_calls_that_compute_on_the_host(launch: Callable[..., Process]) -> None:
    """Each has a thousand changes to place in 256 texts, which takes a core seconds."""
    process = launch("--grace-seconds", "1")
    process.wait_until_serving()
    change = {"site": site_pb2.SITE_STATE, "change": {"scale": 0.999}}
    request = cloze.FillMaskRequest(texts=[CAPITAL.texts[0]] * 256, site_interventions=[change] * 1000)
    calls = [process.cloze.FillMask.future(request, timeout=granted(100)) for _ in range(4)]
    wait_until(lambda: metric(process, "bertscope_requests_in_flight", method="FillMask") == 4, "all are there")
    process.popen.send_signal(signal.SIGTERM)
    assert process.end(granted(1 + 5)) == 0
    assert {call.exception().code() for call in calls} <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert "Traceback" not in process.text


@servers_of_its_own
def test_a_killed_server_is_unavailable_and_not_a_hang(launch: Callable[..., Process], tmp_path: Path) -> None:
    remains = tmp_path / f"{SCRATCH}of-one-killed-before"
    remains.mkdir()
    saving = tmp_path / "models" / f"{SAVING_PREFIX}by-one-killed-before"
    saving.mkdir(parents=True)
    process = launch("--model-root", str(tmp_path / "models"))
    process.wait_until_serving()
    assert not remains.exists()
    wait_until(lambda: not saving.exists(), "what a killed save left is gone")
    stream = long_stream(process)
    next(stream)
    process.popen.kill()
    began = time.monotonic()
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(grpc.RpcError) as caught:
        process.cloze.FillMask(CAPITAL, timeout=granted(30))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert time.monotonic() - began < 15


@servers_of_its_own
def test_a_crash_in_native_code_says_where_every_thread_was(launch: Callable[..., Process]) -> None:
    process = launch()
    process.wait_until_serving()
    os.kill(process.popen.pid, signal.SIGSEGV)
    assert process.end() == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in process.text
    assert process.text.count("most recent call first") >= 2, "the loop's thread and the device's"


@servers_of_its_own
def test_sigterm_while_loading_exits_well(launch: Callable[..., Process]) -> None:
    # Fifty models take a while to load; the first words about them come when the first one begins.
    process = launch(*(flag for number in range(50) for flag in ("--model", f"m{number}=bertscope-mini")))
    wait_until(lambda: "loading models/m0" in process.text, "it loads")
    assert process.health() == Status.NOT_SERVING
    process.popen.send_signal(signal.SIGTERM)
    assert process.end(30) == 0
    assert "loading models/m49" not in process.text
    assert "Traceback" not in process.text


def test_sigterm_while_importing_exits_well(launch: Callable[..., Process]) -> None:
    """As soon as it listens, whatever of its libraries is there by then."""
    process = launch()
    wait_until(lambda: "listening on" in process.text, "it listens")
    process.popen.send_signal(signal.SIGTERM)
    assert process.end(30) == 0
    assert "Traceback" not in process.text
    assert " stopping: running calls have 20 s to finish" in process.text
    assert re.search(r" stopped, after \d+\.\d\d s of service$", process.text.rstrip())


@servers_of_its_own
def test_a_load_that_can_not_be_interrupted_does_not_keep_the_process(launch: Callable[..., Process], tmp_path: Path) -> None:
    graphs = tmp_path / "cache" / "onnx"
    graphs.mkdir(parents=True)
    with (graphs / LOCK).open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as another process that never ends its own export
        process = launch("--runtime", "onnx", "--cache-folder", str(tmp_path / "cache"))
        waits = re.compile(rf"-> FLOCK .* {process.popen.pid} ")
        wait_until(lambda: waits.search(Path("/proc/locks").read_text()), "it waits for the lock")
        process.popen.send_signal(signal.SIGTERM)
        assert process.end(30) == 0
    assert "Traceback" not in process.text


def test_a_variable_that_sets_nothing_is_told(launch: Callable[..., Process]) -> None:
    process = launch("--tokens-file", "/nowhere", BERTSCOPE_TOKENSFILE="tokens")
    assert process.end() == 1
    assert (
        "of no effect in the environment, for no setting has that name: BERTSCOPE_TOKENSFILE (BERTSCOPE_TOKENS_FILE?)"
        in process.text
    )
