"""The synchronous client and the calls of usual shapes are what their generators write."""

import ast
from typing import Any

import pytest

from tools import async_to_sync
from tools.protos import classes
from tools.protos.files import PROTOS, described
from tools.protos.rules import Contract, read
from tools.uniform_calls import __main__ as command
from tools.uniform_calls.arguments import docstring
from tools.uniform_calls.declared import Declared


@pytest.mark.slow
def test_what_is_committed_is_what_the_generator_writes() -> None:
    there = {path: path.read_text(encoding="utf-8") for path in async_to_sync.TARGET.glob("*.py")}
    assert there == async_to_sync.generated()


@pytest.fixture(scope="module")
def files() -> Any:
    return described(PROTOS, "--include_source_info")


@pytest.fixture(scope="module")
def contract(files: Any) -> Contract:
    return read(files)


def declared(contract: Contract, source: str) -> Declared:
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    return Declared(function, contract)


def call(contract: Contract, signature: str, options: str = "") -> Declared:
    return declared(contract, f"@each(asked, read, Whole{options})\ndef {signature}: ...")


@pytest.mark.slow
def test_calls_are_what_the_generator_writes() -> None:
    written = command.generated()
    assert written == {path: path.read_text(encoding="utf-8") for path in written}


def test_a_choice_must_be_declared(contract: Contract) -> None:
    with pytest.raises(ValueError, match="pooling is one of several names: declare it"):
        call(contract, "embed_texts(self, inputs: Inputs)").arguments({"inputs"})


def test_a_docstring_ends_with_the_arguments_as_it_lists_them_or_as_the_contract_describes_them(
    files: Any, contract: Contract
) -> None:
    source = """
@each(asked, read, Whole)
def answer_questions(self, questions: Questions, *, best: int | None = None):
    '''Finds spans.

    Arguments:
        questions: Tuples (question,
            passage).
    '''
"""
    found = declared(contract, source)
    text = docstring(found, [*found.positional, *found.named], {"questions"}, classes.read(files)).splitlines()
    assert text[:4] == ["Finds spans.", "", "Arguments:", "    questions: Tuples (question, passage)."]
    assert text[4].startswith("    best: Number of spans to return for each question, 1 to 100; None means 3.")
    with pytest.raises(
        ValueError, match='answer_questions: nothing says what questions is; say it in its docstring, below "Arg'
    ):
        docstring(declared(contract, source.replace("questions: T", "other: T")), found.positional, (), classes.read(files))
