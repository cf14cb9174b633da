"""Checks the packages in uv.lock for known vulnerabilities, by pip-audit.

    python -m tools.deploy.audit   exit 1 if a locked package has one

pip-audit reports a package as clean if its service does not know it, and a mirror of PyPI without the vulnerabilities knows
none. So this prints how many packages were really checked; if the service can't be reached, that none were.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.deploy.programs import Broken, NotInstalled, program, run

ROOT = Path(__file__).resolve().parents[2]
AUDIT_SECONDS = 600.0
"""The time limit, for one request per package."""

UNREACHABLE = re.compile(r"requests\.exceptions\.\w+|Could not connect to|is not redirecting properly")
"""The only output of pip-audit when the service that it asks does not answer."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings of pip-audit."""

    audited: int
    unknown: tuple[str, ...]
    """Packages that the service does not know."""

    vulnerabilities: tuple[str, ...]
    """A line for each."""


def parse(report: dict[str, Any]) -> Audit:
    """Parses pip-audit's report."""
    known = [package for package in report["dependencies"] if "skip_reason" not in package]
    unknown = tuple(package["name"] for package in report["dependencies"] if "skip_reason" in package)
    vulnerabilities = tuple(
        f"{package['name']} {package['version']}: {one['id']}, fixed in {', '.join(one['fix_versions']) or 'no version yet'}"
        for package in known
        for one in package["vulns"]
    )
    return Audit(len(known), unknown, vulnerabilities)


def audit(root: Path) -> Audit | None:
    """Checks all locked packages. Returns None if the service can't be reached. Raises Broken, and NotInstalled."""
    with tempfile.TemporaryDirectory() as name:
        requirements = Path(name) / "requirements.txt"
        selection = ("--all-packages", "--all-extras", "--no-emit-workspace", "--no-annotate", "--no-header")
        run(["uv", "export", "--quiet", "--frozen", *selection, "--output-file", requirements], root)
        flags = ("--disable-pip", "--progress-spinner", "off", "--format", "json")
        done = subprocess.run(
            [program("pip-audit"), "--requirement", requirements, *flags],
            capture_output=True,
            text=True,
            timeout=AUDIT_SECONDS,
            check=False,
        )
    return interpret(done.stdout, done.stderr)


def interpret(output: str, errors: str) -> Audit | None:
    """Interprets a run of pip-audit, whose exit status is the same for a vulnerability and for a failure. Raises Broken."""
    if output.strip():
        return parse(json.loads(output))
    if UNREACHABLE.search(errors):
        return None
    raise Broken(f"pip-audit: {errors.strip()}")


def tell(found: Audit | None) -> int:
    """Prints the findings and returns the exit status."""
    if found is None or not found.audited:
        reason = "can't be reached" if found is None else "knows none of its packages"
        print(f"uv.lock: not audited, the vulnerability service {reason}")
        return 0
    unknown = f"; unknown to the service: {', '.join(found.unknown)}" if found.unknown else ""
    print(f"uv.lock: {len(found.vulnerabilities)} known vulnerabilities in {found.audited} packages{unknown}")
    for vulnerability in found.vulnerabilities:
        print(vulnerability, file=sys.stderr)
    return 1 if found.vulnerabilities else 0


def main() -> int:
    """Runs the check and returns the exit status."""
    try:
        return tell(audit(ROOT))
    except (subprocess.TimeoutExpired, NotInstalled) as error:
        print(f"uv.lock: not audited, {error}")
        return 0
    except Broken as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
