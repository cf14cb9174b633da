"""Runs a part of a benchmark in a process of its own, which imports little and is gone afterwards."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
"""The folder that contains `benchmarks`."""

SPARE_SECONDS = 60.0
"""Additional time for the start of the process and for writing its result."""


def run_module(module: str, given: object, seconds: float) -> Any:
    """Returns the result of a module, which reads `given` from standard input and writes its result, both pickled.

    Raises TimeoutExpired if that takes much longer than `seconds`, and CalledProcessError if it fails.
    """
    command, limit = [sys.executable, "-m", module], seconds + SPARE_SECONDS
    done = subprocess.run(command, input=pickle.dumps(given), stdout=subprocess.PIPE, cwd=ROOT, check=True, timeout=limit)
    return pickle.loads(done.stdout)
