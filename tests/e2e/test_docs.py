"""Every example in README.md and docs/ runs: Python blocks in order, and commands after a `$`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHER_PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "deploy/README.md", "examples/node/README.md")]
DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_GATEWAY = "127.0.0.1:8080"
FOREIGN = {"curl", "grpcurl"}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[str]:
    return [line[2:] for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]


PROGRAMS = [(page, number, code) for page in PAGES for number, code in enumerate(blocks(page, "python"))]
COMMANDS = [(page, command) for page in PAGES for command in commands(page)]


@pytest.mark.parametrize(("page", "number", "code"), PROGRAMS, ids=lambda value: getattr(value, "stem", str(value)[:20]))
def test_python_example_runs(page: Path, number: int, code: str, target: str, tmp_path: Path) -> None:
    script = tmp_path / f"{page.stem}_{number}.py"
    assert DEFAULT_TARGET in code
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script.write_text(code.replace(DEFAULT_TARGET, target), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{page.stem}: {command}"[:60] for page, command in COMMANDS])
def test_command_runs(page: Path, command: str, target: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if DEFAULT_GATEWAY in command:
        command = command.replace(DEFAULT_GATEWAY, request.getfixturevalue("gateway"))
    program, *arguments = shlex.split(command.replace(DEFAULT_TARGET, target))
    if program == "curl":
        arguments.append("--fail-with-body")  # else any answer will do, "not found" too
    scripts = Path(sys.executable).parent
    found = shutil.which(program, path=f"{scripts}{os.pathsep}{os.environ['PATH']}")
    if found is None and program in FOREIGN:
        pytest.skip(f"{program} is not to be had for this machine")
    assert found is not None, f"{program} is not installed"
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {**os.environ, "BERTSCOPE_TARGET": target}
    done = subprocess.run([found, *arguments], capture_output=True, text=True, timeout=100, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if "--plot" in arguments:
        assert (tmp_path / arguments[arguments.index("--plot") + 1]).stat().st_size > 1000


def test_the_pages_have_examples() -> None:
    assert len(PROGRAMS) >= 6
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: page.name)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (page.parent / link).exists(), link
