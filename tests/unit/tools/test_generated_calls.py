"""The synchronous client and the calls of usual shapes are what their generators write."""

import ast

import pytest

from tools import async_to_sync
from tools.protos.files import PROTOS, described
from tools.protos.rules import Contract, read
from tools.uniform_calls import __main__ as command
from tools.uniform_calls.declared import Declared


@pytest.mark.slow
def test_what_is_committed_is_what_the_generator_writes():
    there = {path: path.read_text(encoding="utf-8") for path in async_to_sync.TARGET.glob("*.py")}
    assert there == async_to_sync.generated()


@pytest.fixture(scope="module")
def contract() -> Contract:
    return read(described(PROTOS))


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
