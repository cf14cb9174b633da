"""`bertscope demo` with a fake bertscope_service as its child process: it starts it, asks it, stops it, always."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import granted

ROOT = Path(__file__).parents[4]
CHILD = """
import json, os, signal, sys, threading
from pathlib import Path
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert arguments["--host"] == "127.0.0.1" and arguments["--port"] == arguments["--metrics-port"] == "0"
stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())
Path({pid_file!r}).write_text(str(os.getpid()))
def listen_on(port):
    port_file = Path(arguments["--port-file"])
    port_file.with_suffix(".new").write_text(json.dumps({"port": port, "metrics_port": 1}))
    port_file.with_suffix(".new").rename(port_file)
{then}
"""
SERVE = """
from tests.support import fake_server
fake = fake_server.FakeServer()
host = fake_server.start(fake)
fake.health.set("", 2)
listen_on(int(fake.target.split(":")[1]))
fake.health.set("", 1)
stopped.wait()
host.stop(None).wait()
"""


@pytest.fixture
def demo(tmp_path):
    """Starts `bertscope demo` with a child that does `then`; gives the process and the file with the child's id."""
    started = []

    def start(then: str, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
        pid_file = tmp_path / "pid"
        package = tmp_path / "bertscope_service"
        package.mkdir()
        package.joinpath("__init__.py").touch()
        package.joinpath("__main__.py").write_text(CHILD.replace("{pid_file!r}", repr(str(pid_file))).replace("{then}", then))
        paths = os.pathsep.join([str(tmp_path), str(ROOT)])
        command = [sys.executable, "-c", "from bertscope_workbench.command.app import main; main()", "demo", *arguments]
        process = subprocess.Popen(
            command,
            # gRPC's core logs a connection that the fake server drops to standard error, which these tests look at.
            env=os.environ | {"PYTHONPATH": paths, "GRPC_VERBOSITY": "NONE"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, pid_file

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def gone(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
def test_the_demo_asks_and_stops_the_server(demo):
    process, pid_file = demo(SERVE)
    out, err = process.communicate(timeout=granted(60))
    assert (process.returncode, err) == (0, ""), out
    for expected in (
        "models/fake",
        "client.list_models()",
        "france",
        "0.2500",
        "zero(layer=3, heads=[1])",
        "client.sweep_heads(",
        "each layer made uniform",
        "server stopped, exit code 0",
    ):
        assert expected in out
    assert gone(pid_file)


def test_a_server_that_does_not_start_is_one_line(demo):
    process, _ = demo("print('no such model: nowhere', file=sys.stderr); os._exit(3)")
    out, err = process.communicate(timeout=granted(60))
    assert (process.returncode, out) == (1, "")
    assert err == "bertscope: the server ended with exit code 3: no such model: nowhere\n"


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_stops_the_server(demo, tmp_path, sent, code):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process, pid_file = demo(f"open({str(fifo)!r}, 'w').close(); stopped.wait()")
    fifo.open().close()  # Returns when the child is running.
    process.send_signal(sent)
    process.communicate(timeout=granted(60))
    assert process.returncode == code
    assert gone(pid_file)
