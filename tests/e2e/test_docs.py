"""Examples run: Python in README.md and docs/, programs for Node, commands after a `$`, and the notebooks of examples/."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path

import bertscope
import jupytext
import pytest
from nbclient import NotebookClient

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
"""Its programs need TLS and tokens: tests/integration/service/security/test_security_page.py runs them."""

PROGRAMS = [(page, code) for page in PAGES if page != SECURED for code in blocks(page, "python")]
SCRIPTS = [(page, number, code) for page in PAGES for number, code in enumerate(blocks(page, "js"))]
COMMANDS = [(page, command) for page in PAGES for command in commands(page)]
ALONE = re.compile(r"[|<>;&$*`]|^(?!bertscope )|^bertscope (serve|demo|explore|mcp|cache)\b")
"""Commands that a shell runs: those of other programs, of several, and those with processes of their own."""
SHELL = [(page, command) for page, command in COMMANDS if ALONE.search(command)]
TOGETHER = [(page, shlex.split(command)[1:]) for page, command in COMMANDS if not ALONE.search(command)]
BATCH = 8
EXAMPLES = [*PROGRAMS, *TOGETHER]
BATCHES = [EXAMPLES[begin : begin + BATCH] for begin in range(0, len(EXAMPLES), BATCH)]
"""Examples that one process runs, one after another: Python would import all libraries anew for each."""


@pytest.fixture(scope="module", autouse=True)
def without_the_models_of_examples(target: str) -> Iterator[None]:
    """Unloads the models that the examples made: other tests share the server and expect the embedded model alone."""
    yield
    with bertscope.Client(target) as client:
        first, *others = client.list_models()
        assert first.name == "models/bertscope-mini"
        for model in others:
            client.unload_model(model)


@pytest.mark.timeout(granted(600))
@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"{batch[0][0].stem} to {batch[-1][0].stem}")
def test_examples_run(batch: list[tuple[Path, str | list[str]]], target: str, tmp_path: Path) -> None:
    jobs: list[tuple[str | list[str], str]] = []
    for number, (_, example) in enumerate(batch):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "examples").symlink_to(ROOT / "examples")
        if isinstance(example, str):
            assert DEFAULT_TARGET in example
            (folder / "example.py").write_text(example.replace(DEFAULT_TARGET, target), encoding="utf-8")
            jobs.append(("example.py", str(folder)))
        else:
            jobs.append(([word.replace(DEFAULT_TARGET, target) for word in example], str(folder)))
    found = tmp_path / "found.json"
    environment = {**os.environ, "BERTSCOPE_TARGET": target, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "tests.support.example_runs", str(found)]
    subprocess.run(command, input=json.dumps(jobs), text=True, timeout=granted(500), cwd=ROOT, env=environment, check=True)
    for (page, example), (_, folder), ran in zip(batch, jobs, json.loads(found.read_text(encoding="utf-8")), strict=True):
        assert not ran["failed"], (page.name, example, ran)
        assert ran["printed"].strip(), (page.name, example)
        if "--plot" in example:
            assert Path(folder, example[example.index("--plot") + 1]).stat().st_size > 1000


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


@pytest.mark.parametrize(("page", "command"), SHELL, ids=[f"{page.stem}: {command}"[:60] for page, command in SHELL])
def test_command_runs(page: Path, command: str, target: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if DEFAULT_GATEWAY in command:
        command = command.replace(DEFAULT_GATEWAY, request.getfixturevalue("gateway"))
    program = shlex.split(command)[0]
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


NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))


@pytest.mark.timeout(granted(400))
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_numbers(path: Path) -> None:
    notebook = jupytext.read(path)
    client = NotebookClient(
        notebook, timeout=int(granted(300)), kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    copy_context().run(client.execute)  # else its event loop would stay in the context of this thread
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"][1:-1]
    assert len(cells) >= 3
    for cell in cells:
        shown = "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
        assert re.search(r"\d", shown), cell.source


def test_the_pages_have_examples() -> None:
    assert len(PROGRAMS) >= 6
    assert len(SCRIPTS) >= 3
    assert len(COMMANDS) >= 10


def anchors(page: Path) -> set[str]:
    """What a link may name behind its #: the headings, as GitHub writes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_within_the_project_lead_somewhere() -> None:
    for page in (*PAGES, *OTHER_PAGES):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            found = page.parent / path if path else page
            if "://" not in link:
                assert found.exists(), (page, link)
                assert not anchor or anchor in anchors(found), (page, link)


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if page.name != "README.md" and f"({page.name})" not in index] == []
