"""Known vulnerabilities of what uv.lock pins, by pip-audit.

    python -m deploy.audit              exit 1 if a locked package has one

pip-audit calls a package clean that its service has never heard of, and a mirror of PyPI without the vulnerabilities has heard
of none. So this says how many packages were really looked at; where the service can't be asked, that none were.
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

from deploy.tools import Broken, NotInstalled, program, run

ROOT = Path(__file__).resolve().parents[1]
AUDIT_SECONDS = 600.0
"""One request a package."""

UNREACHABLE = re.compile(r"requests\.exceptions\.\w+|Could not connect to|is not redirecting properly")
"""What pip-audit writes, and nothing else, when the service that it asks does not answer."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What pip-audit found out."""

    audited: int
    unknown: tuple[str, ...]
    """Packages that the service does not know."""

    vulnerabilities: tuple[str, ...]
    """A line for each."""


def parse(report: dict[str, Any]) -> Audit:
    """pip-audit's own report, read."""
    known = [package for package in report["dependencies"] if "skip_reason" not in package]
    unknown = tuple(package["name"] for package in report["dependencies"] if "skip_reason" in package)
    vulnerabilities = tuple(
        f"{package['name']} {package['version']}: {one['id']}, fixed in {', '.join(one['fix_versions']) or 'no version yet'}"
        for package in known
        for one in package["vulns"]
    )
    return Audit(len(known), unknown, vulnerabilities)


def audit(root: Path) -> Audit | None:
    """Ask about all that is locked; None if the service can't be asked. Raises Broken, and NotInstalled."""
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
    """What a run of pip-audit says; its exit status is the same for a vulnerability and for a failure. Raises Broken."""
    if output.strip():
        return parse(json.loads(output))
    if UNREACHABLE.search(errors):
        return None
    raise Broken(f"pip-audit: {errors.strip()}")


def tell(found: Audit | None) -> int:
    """Print what was found out; the exit status."""
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
    """Ask, and tell; the exit status."""
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
