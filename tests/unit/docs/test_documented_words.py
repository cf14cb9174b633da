"""What pages say of calls in words, what they tell people to install, and the data that examples ship with."""

import csv
import html
import inspect
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import bertscope
import pytest
from bertscope.client.streams import Reading
from bertscope_service.contract import METHODS, Method, Role

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
LISTS: list[tuple[str, str, Callable[[Method], bool]]] = [
    ("ray", r"\*\*Changing models\.\*\* (.*?) would change", lambda rpc: rpc.role is Role.ADMIN),
    ("ray", r"\*\*Streams\.\*\* (.*?) and health's", lambda rpc: rpc.streaming and not rpc.whole_process),
    ("errors", r"before their first message\), but not (.*?) and benchmarks", lambda rpc: rpc.role is Role.ADMIN),
]
"""Where a text lists calls, and which calls those are."""


def test_pages_name_every_call() -> None:
    assert {rpc.name for rpc in METHODS.values()} <= set(re.findall(r"\w+", " ".join(TEXTS.values())))


def test_lists_of_calls_have_all_of_their_kind() -> None:
    for page, pattern, belongs in LISTS:
        (said,) = re.findall(pattern, TEXTS[page], re.MULTILINE | re.DOTALL if page == "errors" else re.MULTILINE)
        assert set(re.findall(r"[A-Z]\w+", said)) == {rpc.name for rpc in METHODS.values() if belongs(rpc)}, pattern


def test_the_page_about_python_names_methods_of_the_client_and_what_they_give() -> None:
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    methods = {name: getattr(bertscope.Client, name) for name in dir(bertscope.Client) if not name.startswith("_")}
    calls = {name: method for name, method in methods.items() if "timeout" in inspect.signature(method).parameters}
    (listed,) = re.findall(r"^- \*\*A method is its RPC\*\*(.*?)One text is accepted", page, re.DOTALL | re.MULTILINE)
    assert set(named(listed)) <= set(calls)
    (said,) = re.findall(r"^- \*\*Streams\.\*\* (.*?)\n- ", page, re.DOTALL | re.MULTILINE)
    generators, _, rest = said.partition(" is a generator")
    readings, _, rest = rest.partition(" give an object to iterate over")
    whole = rest.partition(" return when they are done")[0]
    given = {name: inspect.signature(method, eval_str=False).return_annotation for name, method in calls.items()}
    for name in named(generators):
        assert str(given[name]).startswith("Generator["), name
    for name in named(readings):
        assert issubclass(getattr(bertscope, str(given[name])), Reading), name
    progressing = {name for name in calls if "on_progress" in inspect.signature(calls[name]).parameters}
    assert progressing == {"benchmark_studies", *(name for name in named(whole) if name in methods)}


def named(text: str) -> list[str]:
    return re.findall(r"`([a-z_]+)`", text)


ROOT = Path(__file__).resolve().parents[3]
BY_NAME = re.compile(
    r"""\b(?:pip3?|uv|pipx|uvx|uv\s+tool)\s+(?:add|install|run)\b[^\n`#|]*?[\s"']bertscope(?:-service)?(?=[\s"'`\[=<>~!)]|$)"""
)


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    suffixes = {".py", ".md", ".toml", ".yaml", ".yml", ".js", ".json", ".sh", ""}
    return [ROOT / name for name in listed.split("\0") if name and Path(name).suffix in suffixes]


@pytest.mark.slow
def test_no_page_or_message_installs_by_a_name_that_is_not_published() -> None:
    found = []
    for path in tracked():
        if path == Path(__file__).resolve() or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if BY_NAME.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def test_what_counts_as_installing_by_name() -> None:
    for line in ("pip install bertscope", '`pip install "bertscope[plot]"', "uv pip install --quiet bertscope==0.1.0"):
        assert BY_NAME.search(line), line
    for line in ("pip install . './service[otel]'", "pip install bertscope-*.whl", "docker run --env A bertscope"):
        assert not BY_NAME.search(line), line


TABLES = sorted([*ROOT.glob("examples/*.tsv"), *ROOT.glob("benchmarks/lib/*.tsv")])
FILES = [*TABLES, *sorted(ROOT.glob("examples/*.txt"))]


def test_rows_are_whole_and_characters_no_html() -> None:
    for path in FILES:
        assert html.unescape(text := path.read_text(encoding="utf-8")) == text, path
    for path in TABLES:
        header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
        assert rows
        assert all(len(row) == len(header) and all(cell.strip() == cell != "" for cell in row) for row in rows), path


def test_examples_state_the_facts_of_the_table() -> None:
    with (ROOT / "benchmarks" / "lib" / "capitals.tsv").open(encoding="utf-8") as file:
        known = {(row["capital"], row["country"]) for row in csv.DictReader(file, delimiter="\t")}
    with (ROOT / "examples" / "capitals.tsv").open(encoding="utf-8") as file:
        told = {
            (row["text"].partition(" is the capital of ")[0], row["answer"]) for row in csv.DictReader(file, delimiter="\t")
        }
    assert told <= known
