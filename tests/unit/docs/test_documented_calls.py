"""What pages say of calls in words is what the contract and the client have."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import bertscope
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
