"""Runs tasks in a separate process: tasks that change state shared by all threads, and tasks that may crash or hang.

torch.onnx.export replaces methods of torch.nn.Module, for every thread, while it traces; a foreign graph may crash ONNX Runtime
or run for ever, and a tokenizer may write gigabytes. None of them belongs in a process that serves. Files are passed in
folders; requests and replies are JSON.

>>> call("try", {"file": "/models/model.onnx", ...}, check=lambda: None, seconds=60)
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from bertscope_service import errors
from bertscope_service.encoders.onnx.helper_main import MESSAGE_BYTES
from bertscope_service.errors import FailedPrecondition, ServiceError

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.1
"""The interval of checks whether anybody still waits."""

EXIT_SECONDS = 1.0
"""The time that a cancelled task has to end, and the process when this one ends."""

ATTEMPTS = 3
"""An idle process may decide to end in the moment in which it gets a task."""

RECEIVE_BYTES = 1024 * 1024


class HelperError(Exception):
    """A task raised an error that is not a ServiceError; its trace is in the log."""


class Helper:
    """The helper process, started when it is first needed, and again whenever it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._owner = 0
        self._numbers = count()

    def call(
        self, task: str, request: Mapping[str, Any], *, check: Callable[[], None] = lambda: None, seconds: float | None = None
    ) -> Any:
        """Runs a task there and returns its reply. Blocks; `check` is called several times a second and may raise, which ends
        the task, as `seconds` do once the task has begun. When this returns or raises, the task has ended.

        Raises FailedPrecondition for a task that crashed, ran out of memory or took too long; the task's error if it is a
        ServiceError or an OSError, such as that of a full disk; HelperError for any other error.
        """
        for _ in range(ATTEMPTS):
            ours, theirs = socket.socketpair()
            with ours:
                answer = Answer(ours, task, check, seconds)
                number = next(self._numbers)
                with theirs:
                    begun = self._send({"number": number, "task": task}, [theirs.fileno()])
                try:
                    if begun and answer.wait(request):
                        return answer.reply()
                except BaseException:
                    self._send({"number": number}, [], start=False)
                    answer.drain()
                    raise
        message = f"the process that was to {WORDS[task]} can't be started; the log says why"
        raise FailedPrecondition(message, "HELPER_CRASHED", task=task)

    def close(self) -> None:
        """Ends the process and all its tasks."""
        with self._lock:
            self._drop()

    def _send(self, message: Mapping[str, Any], handles: list[int], *, start: bool = True) -> bool:
        """Sends a message. Returns whether it could be sent."""
        with self._lock:
            if start:
                self._start()
            if self._socket is None:
                return False
            try:
                socket.send_fds(self._socket, [json.dumps(message).encode().ljust(MESSAGE_BYTES)], handles)
            except OSError:
                self._drop()
                return False
            return True

    def _start(self) -> None:
        """Starts the process unless it runs."""
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return
        self._drop()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bertscope_service.encoders.onnx.helper_main", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=_environment(),
            )
        self._socket, self._owner = ours, os.getpid()

    def _drop(self) -> None:
        process, self._process = self._process, None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if process is not None and self._owner == os.getpid():
            try:
                process.wait(EXIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Answer:
    """The messages that come back from a task."""

    def __init__(self, channel: socket.socket, task: str, check: Callable[[], None], seconds: float | None) -> None:
        self._channel = channel
        self._task = task
        self._check = check
        self._seconds = seconds
        self._said: dict[str, Any] = {}
        self._rest = b""

    def wait(self, request: Mapping[str, Any]) -> bool:
        """Waits until the task has ended. Returns False if it was never begun. Raises the errors of `check`, and
        FailedPrecondition if it takes too long."""
        self._channel.settimeout(CHECK_SECONDS)
        rest = json.dumps(request).encode() + b"\n"
        began: float | None = None
        while self._listen():
            self._check()
            if began is None and "began" in self._said:
                began = time.monotonic()
            # Nobody reads it before, and a large one has no room.
            with contextlib.suppress(OSError):  # the process is busy, or gone
                while rest and began is not None:
                    rest = rest[self._channel.send(rest) :]
            if began is not None and self._seconds is not None and time.monotonic() > began + self._seconds:
                raise self._failed(f"did not end within {self._seconds:.0f} s", "HELPER_TIMEOUT")
        return "began" in self._said

    def drain(self) -> None:
        """Waits until the cancelled task has ended."""
        end = time.monotonic() + EXIT_SECONDS
        with contextlib.suppress(ValueError):
            while time.monotonic() < end and self._listen():
                pass

    def reply(self) -> Any:
        """Returns the reply of a task that has ended. Raises the errors of `Helper.call`."""
        said = self._said
        if "refusal" in said:
            kind, message, reason, metadata = said["refusal"]
            raise _refusal(kind, message, reason, metadata)
        if "system" in said:
            raise OSError(*said["system"])
        if "failure" in said:
            words, trace = said["failure"]
            logger.error("a process that was to %s failed:\n%s", WORDS[self._task], trace.rstrip())
            raise HelperError(words)
        status = said.get("exit", -signal.SIGKILL)
        if "memory" in said or status == -signal.SIGKILL:
            how = "ran out of memory" if "memory" in said else "was killed, as by a system that runs out of memory"
            raise self._failed(how, "HELPER_MEMORY")
        if status != 0 or "reply" not in said:
            how = f"crashed with {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            raise self._failed(how, "HELPER_CRASHED")
        return said["reply"]

    def _listen(self) -> bool:
        """Reads the messages that the task has sent by now. Returns False once it has ended."""
        try:
            data = self._channel.recv(RECEIVE_BYTES)
        except TimeoutError:
            return True
        except OSError:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._said |= json.loads(line)
        return bool(data) and "exit" not in self._said

    def _failed(self, how: str, reason: str) -> FailedPrecondition:
        return FailedPrecondition(
            f"a process that was to {WORDS[self._task]} {how}; {REMEDIES[reason]}", reason, task=self._task
        )


REMEDIES = {
    "HELPER_CRASHED": "the server's log says where; try another version of the model, or another runtime",
    "HELPER_MEMORY": "give the server more memory, or load a smaller model",
    "HELPER_TIMEOUT": "the model may never end; correct it, or load it on a machine that is less busy",
}
"""Remedies for failures of tasks, by reason."""

WORDS = {"export": "export the model for ONNX Runtime", "tokenize": "try the tokenizer", "try": "try the graph"}
"""Descriptions of the tasks, for errors."""


def _refusal(kind: str, message: str, reason: str, metadata: Mapping[str, str]) -> ServiceError:
    """Returns a task's ServiceError as the task raised it."""
    found: type[ServiceError] = getattr(errors, kind, FailedPrecondition)
    return found(message, reason, **metadata)


def _environment() -> dict[str, str]:
    """Returns this process's environment, with its import path, and without variables that the helper does not need."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # The helper uses the CPU alone, and forks: threads of numpy's library would be lost.
        "CUDA_VISIBLE_DEVICES": "",
        "OPENBLAS_NUM_THREADS": "1",
    }


helper = Helper()
"""The helper of this process."""

atexit.register(helper.close)
