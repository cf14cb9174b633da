"""Tools of agents are the contract's rpcs, with its comments, its ranges and its policies."""

import json

import pytest
from bertscope_service.contract import METHODS, Role, Work
from bertscope_workbench.agents import tools
from bertscope_workbench.agents.contract import chosen, operations
from jsonschema import Draft202012Validator

each_operation = pytest.mark.parametrize("operation", operations().values(), ids=list(operations()))
BY_PATH = {method.path: method for method in METHODS.values()}
MOST_CHARACTERS = 110_000
"""The list of the usual tools: about 25,000 tokens."""


@pytest.mark.slow
@each_operation
def test_a_tool(operation):
    method, tool = BY_PATH[operation.path], tools.tool(operation)
    Draft202012Validator.check_schema(tool.input_schema)
    assert tool.input_schema["type"] == "object"
    assert set(tool.input_schema["properties"]) == {field.json_name for field in method.request.DESCRIPTOR.fields}
    assert all(field.get("description") for field in tool.input_schema["properties"].values() if "$ref" not in field)
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
    listed = [*tools.HELPERS, *map(tools.tool, chosen("read"))]
    assert (
        len(json.dumps([tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in listed])) < MOST_CHARACTERS
    )


def test_tools_are_chosen_by_policy_and_by_name():
    assert len(chosen("all")) == len(operations())
    read = chosen("read")
    assert all(each.role == "read" and each.work != "whole_device" for each in read)
    assert {each.name for each in chosen("all")} - {each.name for each in read} >= {"load_model", "benchmark_models"}
    assert [each.name for each in chosen("sweep_*, fill_mask")] == ["sweep_heads", "sweep_sites", "fill_mask"]
    for wrong in ("fil_mask", "", ","):
        with pytest.raises(ValueError, match="use all, read, or names"):
            chosen(wrong)
