"""Tries built distributions on one Python each."""

from __future__ import annotations

import subprocess
from enum import StrEnum
from pathlib import Path

from tools.release.distributions import Distribution, Distributions
from tools.release.environments import Environment, interpreter
from tools.release.sbom import write_sbom

_IMPORT_ALL = """
import importlib, pkgutil, re, sys
from importlib.metadata import requires
root = importlib.import_module(sys.argv[1])
optional = {re.match("[A-Za-z0-9_-]+", need)[0] for need in requires(sys.argv[1].replace("_", "-")) if "extra ==" in need}
def failed(name):
    lacking = sys.exc_info()[1]
    if not (isinstance(lacking, ModuleNotFoundError) and lacking.name in optional):
        raise lacking
for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}.", onerror=failed):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError:
        failed(module.name)
sys.exit(", ".join(set(sys.argv[2:]) & set(sys.modules)) or None)
"""
"""Imports each module of a package. One may lack the package of an extra, and nothing else; none of the packages that follow
may have been imported."""
HEAVY = ("torch", "transformers", "bertscope_service")
FOR_PEOPLE = ("bertscope_workbench", "matplotlib", "pandas", "rich", "typer")


class Outcome(StrEnum):
    """The outcome of a trial."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "not at hand, left out"


def attempt(version: str, built: Distributions, folder: Path, constraints: Path) -> Outcome:
    """Installs and tests the distributions on a version of Python, as "3.12", in a folder."""
    python = interpreter(version)
    if python is None:
        return Outcome.ABSENT
    try:
        with Environment(folder / "client", python, constraints) as environment:
            environment.install([built.client])
            try_client(environment, built.client)
            environment.install([built.client, built.workbench])
            try_workbench(environment, built.workbench)
        with Environment(folder / "service", python, constraints) as environment:
            environment.install([built.client, built.service])
            _try_service(environment, built.service)
            environment.install([built.client, built.workbench, built.service])
            _try_all(environment)
    except subprocess.CalledProcessError as error:
        print(f"Python {version}: {error.cmd} ended with {error.returncode}", flush=True)
        return Outcome.FAILED
    return Outcome.PASSED


def try_client(environment: Environment, client: Distribution) -> None:
    """Tests the client, installed alone: all of it but the extras can be imported, and it imports no large packages and none
    for people."""
    environment.run("python", "-c", _IMPORT_ALL, "bertscope", *HEAVY, *FOR_PEOPLE)
    write_sbom(client, environment.python)


def try_workbench(environment: Environment, workbench: Distribution) -> None:
    """Tests the workbench beside the client: its command runs, all of it can be imported, and it imports no large packages."""
    environment.run("bertscope", "--version")
    environment.run("python", "-c", _IMPORT_ALL, "bertscope_workbench", *HEAVY)
    write_sbom(workbench, environment.python)


def _try_service(environment: Environment, service: Distribution) -> None:
    """Tests the service beside the client alone."""
    environment.run("bertscope-server", "--help")
    write_sbom(service, environment.python)


def _try_all(environment: Environment) -> None:
    """Tests all three: the demo as installed, and the e2e tests with their tools."""
    environment.run("bertscope", "demo")
    environment.install_test_tools()
    environment.check_origin()
    environment.run("python", "-m", "pytest", "tests/e2e", "-n", "2", "--dist", "loadscope")
