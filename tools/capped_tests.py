"""Runs the numeric tests as on CPUs with fewer instructions: `python -m tools.capped_tests`, which is part of `make test-all`.

PyTorch, oneDNN, MKL and OpenBLAS read the limits from the environment when a process loads them. ONNX Runtime asks the CPU
itself; tests/integration/service/encoders/test_emulated_cpu.py runs it on an emulated one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

LIMITS = {
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "SSE": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
}
"""Environments by the widest instructions that are left: AVX2 as on AMD's Zen 2 and 3; vectors of 128 bits, as on hardly any
x86 CPU of today, but as far from others as it gets."""

TESTS = {
    "AVX2": (
        "tests/integration/service/ablation",
        "tests/integration/service/analyses",
        "tests/integration/service/compression",
        "tests/integration/service/encoders",
        "tests/integration/service/models/test_quantized.py",
        "tests/unit/service/analyses",
        "tests/unit/service/benchmark",
        "tests/unit/service/encoders",
    ),
    "SSE": (
        "tests/integration/service/encoders/test_encoder_parity.py",
        "tests/unit/service/encoders",
    ),
}
"""Tests whose results depend on the kernels. The second limit runs those that compare a model's own numbers alone: what is
computed of these, the first has checked."""

QUICK = "not slow or every_architecture"
"""Selects the tests that run: the quick ones, and those that show kernels the shapes of all architectures."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.capped_tests", description=__doc__.partition("\n")[0])
    parser.add_argument("limits", nargs="*", choices=[[], *LIMITS], help="which limits; none means all")
    options = parser.parse_args(arguments)
    ended = [run(name) for name in options.limits or LIMITS if options.limits or not _is_machine(name)]
    return max(ended, default=0)


def _is_machine(name: str) -> bool:
    """Returns whether this CPU has no wider instructions than one of `LIMITS` leaves: then all tests ran under it."""
    import torch

    own = torch.backends.cpu.get_cpu_capability()
    if own == name:
        print(f"this CPU has no wider instructions than {name}: its tests ran under that limit", flush=True)
    return own == name


def run(name: str) -> int:
    """Runs the tests under one of `LIMITS`, in two processes; returns pytest's exit status, and prints it below its summary."""
    limits = LIMITS[name]
    print(f"numeric tests held to {name}: {' '.join(f'{key}={value}' for key, value in limits.items())}", flush=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadscope", "-m", QUICK, *TESTS[name]]
    ended = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", **limits}).returncode
    print(f"held to {name}: exit status {ended} after {time.monotonic() - began:.0f} s", flush=True)
    return ended


if __name__ == "__main__":
    sys.exit(main())
