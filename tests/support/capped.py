"""Runs code as on a CPU with fewer instructions. The libraries read these limits when a process loads them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = {
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"},
    "oldest": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Nehalem"},
}
"""Environments by the last instructions that a CPU has: as on AMD's Zen 3, and no vectors wider than 128 bits."""

SECONDS = 100
"""Longest that a program may take."""


def capped(program: str, limits: dict[str, str]) -> str:
    """The output of a Python program in a process of its own with these limits."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **limits}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
