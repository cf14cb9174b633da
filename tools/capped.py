"""Runs a program as on a CPU with fewer instructions."""

from __future__ import annotations

import os
import subprocess
import sys

from tools.capped_tests import ROOT

SECONDS = 100
"""Longest that a program may take."""


def capped(program: str, limits: dict[str, str]) -> str:
    """Returns the output of a Python program in a process of its own with these limits. Raises RuntimeError if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **limits}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return ran.stdout
