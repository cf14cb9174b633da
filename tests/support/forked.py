"""Servers forked from a process that has imported them: the import takes most of a start, and is the same each time."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock

from bertscope_service.rpc import native_environment as process


class Forked:
    """The process of a server, with the methods of `subprocess.Popen` that tests call.

    What libraries read when they are imported is as it was for the first one: who sets that needs a process from scratch.
    """

    def __init__(
        self,
        flags: Sequence[str],
        environment: Mapping[str, str],
        output: Path,
        program: Callable[[Sequence[str]], int] | None = None,
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["bertscope_service.rpc.server"])
        output.touch()  # there when this comes back, as with Popen
        self._process = context.Process(target=_run, args=(program or serve, flags, dict(environment), output))
        with mock.patch.dict(os.environ, environment, clear=True):
            process.prepare()
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("bertscope_service", timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def serve(flags: Sequence[str]) -> int:
    """What `python -m bertscope_service` does."""
    from bertscope_service.__main__ import run

    return run(flags)


def serve_and_continue(flags: Sequence[str]) -> int:
    """What a program does that runs a server in its own process: afterwards it writes the status, and timers that run."""
    from bertscope_service.__main__ import main

    status = main(flags)
    print(status, [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)], flush=True)
    return 0


def _run(program: Callable[[Sequence[str]], int], flags: Sequence[str], environment: Mapping[str, str], output: Path) -> None:
    """Runs a program in the forked process."""
    with output.open("wb") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # chosen by the variables again
    sys.exit(program(flags))
