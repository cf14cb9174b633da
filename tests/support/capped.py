"""Runs a program as on a CPU with fewer instructions."""

from __future__ import annotations

import os
import subprocess
import sys

from tools.capped_tests import ROOT

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
