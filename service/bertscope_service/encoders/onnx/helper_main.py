"""Runs tasks that change the state of a whole process, or may crash it, in a process beside the server: see `helper_process`.

    python -m bertscope_service.encoders.onnx.helper_main SOCKET_NUMBER

It imports its tasks' modules once, and forks for each task: a fork takes milliseconds where the imports take seconds, and the
changes or crashes of a task end with it. Tasks come over a socket from the server; when it closes, the server is gone, and this
process ends with all tasks.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

TASKS = {
    "export": "bertscope_service.compression.onnx.export:export_task",
    "tokenize": "bertscope_service.checkpoints.tokenizer_trial:growth_task",
    "try": "bertscope_service.encoders.onnx.foreign_trial:trial_task",
}
"""The available tasks: functions from a request to a reply, both of JSON types."""

LATER = {
    "export": (
        "networkx",
        "onnx.reference.ops",
        "onnxscript.function_libs.torch_lib.ops",
        "onnxscript.optimizer",
        "onnxscript.rewriter",
        "onnxscript.rewriter.onnx_fusions",
        "sympy.tensor.tensor",
        "torch._functorch.aot_autograd",
        "torch._functorch.partitioners",
        "torch._inductor.fx_passes",
        "torch._inductor.sizevars",
        "torch.export._trace",
        "torch.export._unlift",
        "torch.fx.experimental.validator",
        "torch.onnx._internal.exporter._core",
        "torch.onnx._internal.exporter._torchlib.ops",
        "transformers.modeling_utils",
    )
}
"""Modules that tasks' libraries import only when they need them, which would be in every fork anew."""

IDLE_SECONDS = 60.0
"""Without a task for this time the process ends to free its memory, and the next task starts a new one."""

REAP_SECONDS = 0.02
"""The interval of checks for ended tasks, while there are any."""

MESSAGE_BYTES = 128
"""The length of every message on the server's socket, padded with blanks: no read gets two of them, or another one's handle."""

PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux' prctl."""


def main(number: int) -> None:
    """Serves tasks until the socket closes or no task has come for a while."""
    faulthandler.enable(all_threads=True)
    # Ctrl-C reaches the whole group of processes; the server handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Standard output may be the server's; output of libraries belongs in the log.
    os.dup2(2, 1)
    server = socket.socket(fileno=number)
    running: dict[int, tuple[int, socket.socket]] = {}
    used = time.monotonic()
    try:
        while running or time.monotonic() - used < IDLE_SECONDS:
            ready, _, _ = select.select([server], [], [], REAP_SECONDS if running else IDLE_SECONDS)
            if ready:
                message, handles, _, _ = socket.recv_fds(server, MESSAGE_BYTES, 1)
                if not message:  # the server is gone
                    return
                _answer(json.loads(message), handles, running, server)
                used = time.monotonic()
            _reap(running)
    finally:
        for pid, _ in running.values():
            os.kill(pid, signal.SIGKILL)


@cache
def _find(task: str) -> Callable[[Mapping[str, Any]], Any]:
    """Returns a task's function, imported with all that it will need."""
    module, _, name = TASKS[task].partition(":")
    found: Callable[[Mapping[str, Any]], Any] = getattr(importlib.import_module(module), name)
    for needed in LATER.get(task, ()):
        with contextlib.suppress(ImportError):  # another version has it elsewhere
            importlib.import_module(needed)
    # Forks would look through all of these objects for garbage, and so copy their memory.
    gc.freeze()
    return found


def _answer(
    message: Mapping[str, Any],
    handles: list[int],
    running: dict[int, tuple[int, socket.socket]],
    server: socket.socket,
) -> None:
    """Begins a task, or ends one that nobody waits for."""
    number = int(message["number"])
    if "task" not in message:
        if number in running:  # not reaped yet, so that its process id is still its own
            os.kill(running[number][0], signal.SIGKILL)
        return
    caller, task = socket.socket(fileno=handles[0]), _find(message["task"])
    sys.stdout.flush()
    sys.stderr.flush()
    own = os.getpid()
    # Sent before the fork: the task may end this process at once, and a task that has begun is not tried again.
    _send(caller, {"began": True})
    pid = os.fork()
    if pid:
        running[number] = pid, caller
        return
    status = 1
    try:
        server.close()
        for _, other in running.values():
            other.close()
        _end_with(own)
        _send(caller, _done(task, caller))
        status = 0
    finally:
        # Skips the exit handlers of the process that this is a copy of.
        os._exit(status)


def _done(task: Callable[[Mapping[str, Any]], Any], caller: socket.socket) -> dict[str, Any]:
    """Runs a task, whose request the caller sends. Returns the reply."""
    from bertscope_service.errors import ServiceError

    try:
        with caller.makefile("rb") as lines:
            request = json.loads(lines.readline())
        return {"reply": task(request)}
    except ServiceError as error:
        return {"refusal": [type(error).__name__, error.message, error.reason, error.metadata]}
    except MemoryError:
        return {"memory": True}
    except OSError as error:
        return {"system": [error.errno, error.strerror or str(error)]}
    except BaseException as error:  # noqa: BLE001 - any error is sent to the caller, also a panic of Rust code
        return {"failure": [f"{type(error).__name__}: {error}", traceback.format_exc()]}


def _send(caller: socket.socket, message: Mapping[str, Any]) -> None:
    try:
        caller.sendall(json.dumps(message).encode() + b"\n")
    except OSError:  # nobody waits any more
        return


def _reap(running: dict[int, tuple[int, socket.socket]]) -> None:
    """Tells callers how their tasks ended, whatever the tasks said themselves."""
    for number, (pid, caller) in list(running.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            _send(caller, {"exit": os.waitstatus_to_exitcode(status)})
            caller.close()
            del running[number]


def _end_with(parent: int) -> None:
    """Lets the system end this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ctypes.c_int(PARENT_DEATH_SIGNAL), ctypes.c_ulong(signal.SIGKILL))
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
    os._exit(0)
