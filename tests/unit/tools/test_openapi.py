"""The description of JSON over HTTP is valid OpenAPI, and has every path that Envoy serves."""

import json
from pathlib import Path

import pytest
from bertscope_service.contract import METHODS
from openapi_spec_validator import OpenAPIV31SpecValidator

from tools.protos.openapi import CODES, PATH

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def document():
    return json.loads((ROOT / PATH).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def operations(document):
    return [operation for ways in document["paths"].values() for operation in ways.values()]


@pytest.mark.slow
def test_it_is_valid(document):
    assert document["openapi"].startswith("3.1.")
    assert [*OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_every_path_of_the_contract_is_there(document):
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    written = {(way.split()[0], way.split()[1]) for way in page.split("`") if way.startswith(("GET /v1", "POST /v1"))}
    described = {
        (verb.upper(), path.replace("{model}", "{id}").replace("{name}", "{id}"))
        for path, ways in document["paths"].items()
        for verb in ways
    }
    assert described == written


def test_operations_carry_their_policy(operations):
    by_path = {method.path: method for method in METHODS.values()}
    for operation in operations:
        own, method = operation["x-bertscope"], by_path[operation["x-bertscope"]["rpc"]]
        assert own["role"].upper() == method.role.name
        assert own["work"].upper() == method.work.name
        assert (own["idempotent"], own["streaming"]) == (method.idempotent, method.streaming)
        assert operation["description"]
        assert operation["summary"]
    assert len({operation["operationId"] for operation in operations}) == len(operations)


def test_errors_have_the_form_of_a_status(document, operations):
    responses = document["components"]["responses"]
    assert {f"E{code}" for code in CODES.values()} == set(responses)
    for response in responses.values():
        assert response["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Status"}
    for operation in operations:
        assert {"401", "403", "503"} <= operation["responses"].keys()
    (fill,) = (each for each in operations if each["operationId"] == "fillMask")
    assert {"400", "404", "429", "501"} <= fill["responses"].keys()
