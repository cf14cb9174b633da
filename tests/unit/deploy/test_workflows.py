"""The public CI runs verbs of the Makefile, on every Python that we support, and publishes nothing that has not passed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
CI, RELEASE = (
    yaml.safe_load((ROOT / ".github/workflows" / name).read_text(encoding="utf-8")) for name in ("ci.yml", "release.yml")
)
VERBS = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def commands(workflow: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job.get("steps", []))


def test_it_runs_verbs_of_the_makefile() -> None:
    used = set(re.findall(r"\bmake (?:CPU=1 )?([a-z-]+)", commands(CI)))
    assert {"check", "docs", "test", "test-all", "release"} <= used <= VERBS


def test_it_runs_on_every_python_that_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert CI["jobs"]["test"]["strategy"]["matrix"]["python"] == supported


def test_what_is_published_has_passed_and_bears_the_version() -> None:
    jobs = RELEASE["jobs"]
    assert jobs["ci"]["uses"] == "./.github/workflows/ci.yml"
    for name in jobs.keys() - {"ci", "version"}:
        assert jobs[name]["needs"] == ["ci", "version"]
    assert "_version.py" in commands({"jobs": {"version": jobs["version"]}})


def test_no_password_is_stored() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    assert jobs_with("id-token") == {"distributions", "image", "site"}
    assert CI["permissions"] == RELEASE["permissions"] == {"contents": "read"}


def jobs_with(permission: str) -> set[str]:
    """The jobs of a release that have a permission."""
    return {name for name, job in RELEASE["jobs"].items() if permission in job.get("permissions", {})}
