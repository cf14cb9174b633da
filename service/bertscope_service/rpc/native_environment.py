"""Prepares a process that runs models, before it imports PyTorch."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys

SWITCH_SECONDS = 0.0005
"""A thread waits this long for Python's lock before it asks another to let it go. A device's thread needs the lock after each
operation of PyTorch, and a thread that reads a large request never waits."""


COLLECT = (5_000, 1, 7)
"""Garbage is looked for among new objects when there are 5,000 more than after the last time, not 700: a call of hundreds of
texts makes some thousands, which its end frees without the collector. Older objects are looked through as often as by default:
what a failed call leaves in a cycle of references may be large."""


def prepare() -> None:
    """Sets environment variables that native libraries read once, when they are loaded; variables that are set already stay.
    Threads that compute in Python let others run sooner, and garbage is looked for less often. From now on a crash in native
    code prints every thread's stack on standard error."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECT)
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__, all_threads=True)
    # oneDNN keeps a kernel, about 0.3 MB, for every number of tokens that a batch ever had, by default 1024 of them.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
    # PyTorch's threads spin for milliseconds after each operation, and ONNX Runtime's threads can't use their cores meanwhile.
    # Such long spinning gains nothing; without any, every operation would have to wake them.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    # transformers, too, draws no progress bars then, between the lines of the log.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # gRPC's core writes a line for each malformed header and each failed handshake, which any client that reaches the port can
    # send without end.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
