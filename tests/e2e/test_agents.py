"""`bertscope mcp` as agents' hosts run it: a process on stdin and stdout, or a server of HTTP."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from bertscope_workbench.agents.serving import MAX_SESSIONS
from mcp import Client

from tests.support.observed import metric
from tests.support.patience import granted, wait_until
from tests.support.process import Process

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "agents" / "knows.py"
BIN = Path(sys.executable).parent
TOKEN = "a-token-of-callers"
QUESTION = ("Paris is the capital of [MASK].", "france")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def environment(target: str, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BERTSCOPE_")}
    return kept | {"BERTSCOPE_TARGET": target, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"} | more


@contextmanager
def over_http(target: str, *flags: str | Path, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`bertscope mcp --http` on a free port; its address."""
    command = [str(BIN / "bertscope"), "mcp", "--http", "--port", "0", *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(target, **variables))
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"https?://\S+/mcp", line)
        assert found, line + process.stderr.read()
        yield found[0], process
    finally:
        process.kill()
        process.wait(granted(30))
        process.stderr.close()


def answered(target: str, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments, *QUESTION],
        capture_output=True,
        text=True,
        timeout=granted(100),
        env=environment(target, **variables),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(said: str) -> None:
    assert "france: rank 1" in said
    assert len(re.findall(r"^layer \d, head \d+: without it", said, re.MULTILINE)) == 3
    before, after = (float(share) for share in re.findall(r"rank \d+, ([\d.]+)%", said))
    assert after < before


def test_does_it_know_and_by_which_heads_over_stdio(target: str) -> None:
    check(answered(target))


def test_does_it_know_and_by_which_heads_over_http(target: str, tmp_path: Path) -> None:
    with over_http(target, "--results", tmp_path) as (url, _):
        check(answered(target, "--url", url))
        assert (tmp_path / "attribute_logits-1.json").is_file()
        assert (tmp_path / "attribute_logits-1.npz").is_file()


def status(url: str, **headers: str) -> int:
    request = urllib.request.Request(
        url,
        json.dumps(INITIALIZE).encode(),
        {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=granted(20)) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_only_callers_with_the_token_and_of_no_other_origin_are_answered(target: str, tmp_path: Path) -> None:
    """A page of another origin, or of a name that was rebound to this machine, asks nothing."""
    with over_http(target, "--host-name", "tools.example", BERTSCOPE_MCP_TOKEN=TOKEN, TMPDIR=str(tmp_path)) as (url, _):
        assert status(url) == status(url, authorization="Bearer other") == 401
        mine = {"authorization": f"Bearer {TOKEN}"}
        assert status(url, **mine) == status(url, host="tools.example", **mine) == 200
        assert status(url, host="evil.example", **mine) == 421
        here = url.removesuffix("/mcp")
        assert status(url, origin=here, **mine) == status(url, origin="http://tools.example", **mine) == 200
        assert status(url, origin="http://evil.example", **mine) == status(url, origin="http://127.0.0.1:1", **mine) == 403
        check(answered(target, "--url", url, BERTSCOPE_MCP_TOKEN=TOKEN))
        opened = [status(url, **mine) for _ in range(MAX_SESSIONS)]
        assert (opened[0], opened[-1]) == (200, 503)


@pytest.mark.parametrize(
    ("flags", "variables", "part"),
    [
        (["--http", "--host", "0.0.0.0"], {}, "other machines need a token"),
        (["--http"], {"BERTSCOPE_TOKEN": "mine"}, "other users of this machine could call with your token"),
        (["--tools", "fil_mask"], {}, "no tool is called 'fil_mask'"),
    ],
)
def test_wrong_commands(target: str, flags: list[str], variables: dict[str, str], part: str) -> None:
    done = subprocess.run(
        [str(BIN / "bertscope"), "mcp", *flags],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=granted(60),
        env=environment(target, **variables),
        check=False,
    )
    assert done.returncode in (1, 2)
    assert part in " ".join(done.stderr.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, None])
def test_a_signal_is_the_end_as_is_that_of_the_input_and_no_folder_is_left(
    target: str, tmp_path: Path, number: signal.Signals | None
) -> None:
    if number is not None:
        with over_http(target, TMPDIR=str(tmp_path)) as (_, http):
            assert [*tmp_path.glob("bertscope-mcp-*")]
            http.send_signal(number)
            assert http.wait(granted(30)) == 0
        assert not [*tmp_path.glob("bertscope-mcp-*")]
    command, variables = [str(BIN / "bertscope"), "mcp"], environment(target, TMPDIR=str(tmp_path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=variables, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert f"full results go to {tmp_path}" in process.stderr.readline()
        if number is None:
            process.stdin.close()
        else:
            process.send_signal(number)
        assert process.wait(granted(30)) == 0
    assert not [*tmp_path.glob("bertscope-mcp-*")]


def cancelled(process: Process) -> float:
    """Sweeps that their callers cancelled."""
    return metric(process, "bertscope_requests_total", code="CANCELLED", method="SweepHeads")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_call_that_is_cancelled_over_http_ends_on_the_server(embedded: Process, tmp_path: Path, mode: str) -> None:
    """With the protocol's handshake, and without. The connection goes on."""
    before = cancelled(embedded)
    sweep = {"objective": {"maskedLmLoss": {"texts": ["the old man and the sea " * 20] * 200}}, "mode": "MODE_ZERO"}

    async def work(url: str) -> bool:
        async with Client(url, mode=mode) as client:
            begun = anyio.Event()

            async def progress(*_: object) -> None:
                begun.set()

            async with anyio.create_task_group() as group:
                group.start_soon(partial(client.call_tool, "sweep_heads", sweep, progress_callback=progress))
                with anyio.fail_after(granted(60)):
                    await begun.wait()
                group.cancel_scope.cancel()
            await asyncio.to_thread(wait_until, lambda: cancelled(embedded) == before + 1, "the server hears of it")
            return bool((await client.call_tool("list_models", {})).is_error)

    with over_http(embedded.target, "--results", tmp_path) as (url, _):
        assert not asyncio.run(work(url))
