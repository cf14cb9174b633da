"""Calls of usual shapes are what their declarations and the contract say."""

import ast

import pytest

from tools.protos.files import PROTOS, described
from tools.protos.rules import Contract, read
from tools.uniform_calls import __main__ as command
from tools.uniform_calls.declared import Declared, checked

ENUMS = {"bertscope.v1.StatePooling": "representation_states_pb2"}


@pytest.fixture(scope="module")
def contract() -> Contract:
    return read(described(PROTOS))


def declared(contract: Contract, source: str) -> Declared:
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    return Declared(function, contract)


def call(contract: Contract, signature: str, options: str = "") -> Declared:
    return declared(contract, f"@each(asked, read, Whole{options})\ndef {signature}: ...")


def test_what_is_committed_is_what_the_generator_writes() -> None:
    written = command.generated()
    assert written == {path: path.read_text(encoding="utf-8") for path in written}


def test_fields_are_arguments(contract: Contract) -> None:
    embed = call(contract, "embed_texts(self, inputs: Inputs, *, pooling: StatePooling | None = None)")
    assert list(map(str, embed.arguments({"inputs"}))) == [
        "model: str | Model | None = None",
        "pooling: StatePooling | None = None",
        "normalize: bool | None = None",
        "interventions: Interventions = ()",
        "reference_texts: str | Iterable[str] = ()",
        "truncate: bool = False",
    ]
    assert list(map(str, embed.positional)) == ["inputs: Inputs"]
    assert embed.module == "representation_states_pb2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", 'model_name("model", model)'),
        ("pooling", 'enum_value("pooling", pooling, StatePooling, representation_states_pb2.StatePooling)'),
        ("normalize", 'None if normalize is None else validation.flag("normalize", normalize)'),
        ("reference_texts", 'validation.texts("reference_texts", reference_texts)'),
        ("truncate", 'validation.flag("truncate", truncate)'),
        ("interventions", ""),
    ],
)
def test_arguments_become_fields(contract: Contract, name: str, value: str) -> None:
    embed = call(contract, "embed_texts(self, inputs: Inputs, *, pooling: StatePooling | None = None)")
    (field,) = (field for field in embed.fields({"inputs"}) if field.name == name)
    assert checked(field, embed.of_field(field), ENUMS, positive=False) == (
        f"{name}={value}" if value else "**intervention_fields(interventions)"
    )


def test_a_choice_must_be_declared(contract: Contract) -> None:
    with pytest.raises(ValueError, match="pooling is one of several names: declare it"):
        call(contract, "embed_texts(self, inputs: Inputs)").arguments({"inputs"})
