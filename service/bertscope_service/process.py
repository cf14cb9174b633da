"""What a process that runs models needs before it imports PyTorch."""

from __future__ import annotations

import os


def prepare() -> None:
    """Set what native libraries read once, from the environment, when they are loaded; what is set already stays."""
    # oneDNN keeps a kernel, about 0.3 MB, for every number of tokens that a batch ever had, 1024 of them unless told otherwise.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
    # PyTorch's threads wait for more work in a loop that takes milliseconds of a core, in which ONNX Runtime's can't have it.
    # So long a wait gains nothing; without any, every operation would wake them anew.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
