"""Tools of agents are the contract's rpcs, with its comments, its ranges and its policies."""

import pytest
from bertscope_service.contract import METHODS, Role, Work
from bertscope_workbench.agents import finding, tools
from bertscope_workbench.agents.contract import USUAL, chosen, operations
from bertscope_workbench.agents.server import INSTRUCTIONS
from jsonschema import Draft202012Validator

each_operation = pytest.mark.parametrize("operation", operations().values(), ids=list(operations()))
BY_PATH = {method.path: method for method in METHODS.values()}
MOST_CHARACTERS = 24_000
"""What an agent reads before its first question: 6,000 tokens of some four characters."""


@pytest.mark.slow
@each_operation
def test_a_tool(operation):
    method, tool = BY_PATH[operation.path], tools.tool(operation)
    Draft202012Validator.check_schema(tool.input_schema)
    assert tool.input_schema["type"] == "object"
    assert set(tool.input_schema["properties"]) == {field.json_name for field in method.request.DESCRIPTOR.fields}
    told = {name: field for name, field in tool.input_schema["properties"].items() if name not in tools.SHARED}
    assert all(field.get("description") for field in told.values() if "$ref" not in field)
    assert set(tools._references(tool.input_schema)) <= set(tool.input_schema.get("$defs", ()))
    assert tool.description
    assert tool.annotations.read_only_hint == (method.role is not Role.ADMIN)
    assert tool.annotations.destructive_hint == (method.role is Role.ADMIN)
    assert tool.annotations.idempotent_hint == method.idempotent
    assert ("role admin" in tool.description) == (method.role is Role.ADMIN)
    assert operation.soon == (
        not method.streaming
        and (method.work in (Work.INTERACTIVE, Work.PROBE) or (method.work is Work.CONTROL and method.idempotent))
    )


def test_the_usual_tools_fit_a_context():
    usual = chosen("usual")
    assert {each.name for each in usual} == set(USUAL)
    listed = [*tools.FINDERS, *tools.HELPERS, *map(tools.tool, usual)]
    written = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in listed]
    assert sum(map(len, [INSTRUCTIONS, *written])) < MOST_CHARACTERS
    assert all(f"`{field}`" in INSTRUCTIONS for field in tools.SHARED)


def test_tools_are_chosen_by_policy_and_by_name():
    assert len(chosen("all")) == len(operations())
    read = chosen("read")
    assert all(each.role == "read" and each.work != "whole_device" for each in read)
    assert {each.name for each in chosen("all")} - {each.name for each in read} >= {"load_model", "benchmark_models"}
    assert [each.name for each in chosen("sweep_*, fill_mask")] == ["sweep_heads", "sweep_sites", "fill_mask"]
    for wrong in ("fil_mask", "", ","):
        with pytest.raises(ValueError, match="use usual, read, all, or names"):
            chosen(wrong)


def test_the_nearest_messages_are_shown_and_names_of_enums_always():
    fill = tools.tool(operations()["fill_mask"]).input_schema
    assert fill["properties"]["decoding"]["enum"] == ["independent", "left_to_right", "confidence_first", "beam"]
    sweep = tools.tool(operations()["sweep_heads"]).input_schema
    assert sweep["properties"]["sets"]["items"] == {"$ref": "#/$defs/HeadSet"}
    assert sweep["$defs"]["HeadSet"]["properties"]["layers"]["type"] == "array"
    assert "see `describe`" in sweep["properties"]["objective"]["description"]
    assert tools.tool(operations()["classify"]).input_schema["properties"]["inputs"]["items"] == tools.A_TEXT


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("activation patching", "sweep_sites"),
        ("NER entities", "classify_tokens"),
        ("saliency of words", "attribute_words"),
        ("what does a neuron mean", "find_contexts"),
        ("train a probe", "train_probe"),
        ("sparse autoencoder", "train_codes"),
    ],
)
def test_a_search_finds_tools_by_what_they_are_for(query, tool):
    found = finding.search(query, chosen("read"))
    assert tool in [each["name"] for each in found[:3]]
    assert all(each["about"] for each in found)
    assert not any(each["about"].endswith("et al.") for each in found)


def test_a_search_for_nothing_known_finds_nothing():
    assert finding.search("xyzzy", chosen("read")) == []
