"""Every example in README.md and docs/ runs: Python blocks in order, programs for Node, and commands after a `$`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bertscope
import pytest

from tests.support.installations import node_project
from tests.support.patience import granted

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHER_PAGES = [
    ROOT / name
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "deploy/README.md", "examples/node/README.md", "service/README.md")
]
DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_GATEWAY = "127.0.0.1:8080"
FOREIGN = {"curl", "grpcurl"}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[str]:
    return [line[2:] for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]


SECURED = ROOT / "docs" / "security.md"
"""Its programs need TLS and tokens: tests/integration/security/test_security_page.py runs them."""

PROGRAMS = [(page, number, code) for page in PAGES if page != SECURED for number, code in enumerate(blocks(page, "python"))]
SCRIPTS = [(page, number, code) for page in PAGES for number, code in enumerate(blocks(page, "js"))]
COMMANDS = [(page, command) for page in PAGES for command in commands(page)]


@pytest.fixture(scope="module", autouse=True)
def without_the_models_of_examples(target: str) -> Iterator[None]:
    """Unloads the models that the examples made: other tests share the server and expect the embedded model alone."""
    yield
    with bertscope.Client(target) as client:
        first, *others = client.list_models()
        assert first.name == "models/bertscope-mini"
        for model in others:
            client.unload_model(model)


@pytest.mark.parametrize(("page", "number", "code"), PROGRAMS, ids=lambda value: getattr(value, "stem", str(value)[:20]))
def test_python_example_runs(page: Path, number: int, code: str, target: str, tmp_path: Path) -> None:
    script = tmp_path / f"{page.stem}_{number}.py"
    assert DEFAULT_TARGET in code
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script.write_text(code.replace(DEFAULT_TARGET, target), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=granted(100), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project for Node, whose modules the examples import."""
    return node_project(ROOT / "examples" / "node", tmp_path_factory.mktemp("node") / "example")


@pytest.mark.parametrize(("page", "number", "code"), SCRIPTS, ids=lambda value: getattr(value, "stem", str(value)[:20]))
def test_node_example_runs(page: Path, number: int, code: str, target: str, node_folder: Path) -> None:
    script = node_folder / f"{page.stem}_{number}.js"
    assert DEFAULT_TARGET in code
    script.write_text(code.replace(DEFAULT_TARGET, target), encoding="utf-8")
    done = subprocess.run(
        ["node", script.name], capture_output=True, text=True, timeout=granted(100), cwd=node_folder, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{page.stem}: {command}"[:60] for page, command in COMMANDS])
def test_command_runs(page: Path, command: str, target: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if DEFAULT_GATEWAY in command:
        command = command.replace(DEFAULT_GATEWAY, request.getfixturevalue("gateway"))
    program, *arguments = shlex.split(command)
    line = command.replace(DEFAULT_TARGET, target)
    if program == "curl":
        line += " --fail-with-body"  # else any answer will do, "not found" too
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if shutil.which(program, path=path) is None and program in FOREIGN:
        pytest.skip(f"{program} is not to be had for this machine")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {**os.environ, "BERTSCOPE_TARGET": target, "PATH": path}
    shell = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=granted(100), cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if "--plot" in arguments:
        assert (tmp_path / arguments[arguments.index("--plot") + 1]).stat().st_size > 1000


def test_the_pages_have_examples() -> None:
    assert len(PROGRAMS) >= 6
    assert len(SCRIPTS) >= 3
    assert len(COMMANDS) >= 10


def anchors(page: Path) -> set[str]:
    """What a link may name behind its #: the headings, as GitHub writes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        found = page.parent / path if path else page
        if "://" not in link:
            assert found.exists(), link
            assert not anchor or anchor in anchors(found), link


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_the_index_leads_to_every_page(page: Path) -> None:
    assert page.name == "README.md" or f"({page.name})" in (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
