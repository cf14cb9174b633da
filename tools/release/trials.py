"""Tries built distributions on one Python each."""

from __future__ import annotations

import subprocess
from enum import StrEnum
from pathlib import Path

from tools.release.distributions import Distribution
from tools.release.environments import Environment, interpreter
from tools.release.sbom import write_sbom

_IMPORT_ALL = """
import importlib, pkgutil, re, sys
from importlib.metadata import requires
import bertscope
optional = {re.match("[A-Za-z0-9_-]+", need)[0] for need in requires("bertscope") if "extra ==" in need}
def failed(name):
    lacking = sys.exc_info()[1]
    if not (isinstance(lacking, ModuleNotFoundError) and lacking.name in optional):
        raise lacking
for module in pkgutil.walk_packages(bertscope.__path__, "bertscope.", onerror=failed):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError:
        failed(module.name)
sys.exit(", ".join({"torch", "transformers", "bertscope_service"} & set(sys.modules)) or None)
"""
"""Imports each module of the client. One may lack the package of an extra, and nothing else."""


class Outcome(StrEnum):
    """The outcome of a trial."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "not at hand, left out"


def attempt(version: str, client: Distribution, service: Distribution, folder: Path, constraints: Path) -> Outcome:
    """Installs and tests the distributions on a version of Python, as "3.12", in a folder."""
    python = interpreter(version)
    if python is None:
        return Outcome.ABSENT
    try:
        with Environment(folder / "client", python, constraints) as environment:
            environment.install([client])
            try_client(environment, client)
        with Environment(folder / "service", python, constraints) as environment:
            _try_both(environment, client, service)
    except subprocess.CalledProcessError as error:
        print(f"Python {version}: {error.cmd} ended with {error.returncode}", flush=True)
        return Outcome.FAILED
    return Outcome.PASSED


def try_client(environment: Environment, client: Distribution) -> None:
    """Tests the client, installed alone: all of it but the extras can be imported, and it imports no large packages."""
    environment.run("bertscope", "--version")
    environment.run("python", "-c", _IMPORT_ALL)
    write_sbom(client, environment.python)


def _try_both(environment: Environment, client: Distribution, service: Distribution) -> None:
    """Tests client and service: the demo as installed, and the e2e tests with their tools."""
    environment.install([client, service])
    environment.run("bertscope", "demo")
    write_sbom(service, environment.python)
    environment.install_test_tools()
    environment.check_origin()
    environment.run("python", "-m", "pytest", "tests/e2e", "-n", "2", "--dist", "loadscope")
