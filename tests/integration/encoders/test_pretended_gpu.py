"""A part of the tests for a GPU, on a pretended one; `make test-all` runs all of them so."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.patience import granted

ROOT = Path(__file__).parents[3]


def test_questions_on_a_pretended_gpu() -> None:
    """BERT's answers, its budgets and planted mistakes, in a process of its own: a process keeps its pretended GPUs."""
    tests = ["test_pretended_gpu.py", "test_gpu_questions.py", "test_gpu_budgets.py"]
    command = [sys.executable, "-m", "pytest", "-q", "--pretend-gpu", "-p", "no:cacheprovider", "-n", "0", "-m", "not slow"]
    command += ["-k", "(test_pretended_gpu or [bert-) and not edited", *(f"tests/gpu/{name}" for name in tests)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=granted(240))
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout.splitlines()[-1]
