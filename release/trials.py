"""Trials of built distributions on one Python each."""

from __future__ import annotations

import subprocess
from enum import StrEnum
from pathlib import Path

from release.distributions import Distribution
from release.environments import Environment, interpreter
from release.sbom import write_sbom

_IMPORT_ALL = """
import importlib, pkgutil, sys, bertscope
for module in pkgutil.walk_packages(bertscope.__path__, "bertscope."):
    importlib.import_module(module.name)
sys.exit(", ".join({"torch", "transformers", "bertscope_service"} & set(sys.modules)) or None)
"""


class Outcome(StrEnum):
    """What came of a trial."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "not at hand, left out"


def attempt(version: str, client: Distribution, service: Distribution, folder: Path, constraints: Path) -> Outcome:
    """Install and test the distributions on a version of Python, as "3.12"; what is installed lies in a folder meanwhile."""
    python = interpreter(version)
    if python is None:
        return Outcome.ABSENT
    try:
        with Environment(folder / "client", python, constraints) as environment:
            _try_client(environment, client)
        with Environment(folder / "service", python, constraints) as environment:
            _try_both(environment, client, service)
    except subprocess.CalledProcessError as error:
        print(f"Python {version}: {error.cmd} ended with {error.returncode}", flush=True)
        return Outcome.FAILED
    return Outcome.PASSED


def _try_client(environment: Environment, client: Distribution) -> None:
    """The client alone: all of it can be imported, and nothing heavy comes with it."""
    environment.install([client])
    environment.run("bertscope", "--version")
    environment.run("python", "-c", _IMPORT_ALL)
    write_sbom(client, environment.python)


def _try_both(environment: Environment, client: Distribution, service: Distribution) -> None:
    """Client and service: the demo runs as they come, and the e2e tests with their tools."""
    environment.install([client, service])
    environment.run("bertscope", "demo")
    write_sbom(service, environment.python)
    environment.install_test_tools()
    environment.check_origin()
    environment.run("python", "-m", "pytest", "tests/e2e", "-n", "2", "--dist", "loadscope")
