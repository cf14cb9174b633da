"""`make release`: builds wheels and sdists into dist/ and tries them in empty environments.

For each Python: the client alone, client and workbench, client and service, then all three with the demo and the e2e tests
against what is installed.
SHA256SUMS is written last: a dist/ without it has not passed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys

from tools.deploy.programs import NotInstalled
from tools.release.checksums import write_checksums
from tools.release.commands import ROOT
from tools.release.distributions import build
from tools.release.environments import locked_versions
from tools.release.trials import Outcome, attempt

DIST = ROOT / "dist"
WORK = ROOT / "build" / "release"
PYTHONS = ["3.11", "3.12", "3.13"]


def main(pythons: list[str]) -> int:
    """Makes a release. Returns 0 if it passed on every installed Python, and there was one."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    try:
        constraints = locked_versions(WORK / "locked.txt")
        built = build(DIST, constraints)
        outcomes = {version: attempt(version, built, WORK, constraints) for version in pythons}
    except (NotInstalled, FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    for version, outcome in outcomes.items():
        print(f"Python {version}: {outcome}")
    if Outcome.FAILED in outcomes.values() or Outcome.PASSED not in outcomes.values():
        return 1
    write_checksums(DIST)
    print(*(f"dist/{file.name}" for file in sorted(DIST.iterdir()) if not file.name.startswith(".")), sep="\n")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description="Build a release and try it in empty environments."
    )
    parser.add_argument("--python", action="append", metavar="VERSION", help=f"repeatable; {', '.join(PYTHONS)} unless given")
    sys.exit(main(parser.parse_args().python or PYTHONS))
