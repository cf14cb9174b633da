"""Replies, as JSON, are what the OpenAPI description says, for every rpc."""

import json
from pathlib import Path

import pytest
from bertscope_service.contract import METHODS
from google.protobuf.json_format import MessageToDict
from jsonschema import Draft202012Validator

from tools.protos.openapi import PATH
from tools.protos.samples import good

pytestmark = pytest.mark.usefixtures("brief")

DOCUMENT = json.loads((Path(__file__).resolve().parents[4] / PATH).read_text(encoding="utf-8"))
SCHEMAS = json.loads(json.dumps(DOCUMENT["components"]["schemas"]).replace("#/components/schemas/", "#/$defs/"))
REPLIES = {
    operation["x-bertscope"]["rpc"]: operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    for ways in DOCUMENT["paths"].values()
    for operation in ways.values()
}
TAKES_SECONDS = {"CompressModel"}
ONES = [method for method in METHODS.values() if method.path in REPLIES and method.name not in TAKES_SECONDS]


def closed(schema):
    """The same schemas, which allow no field that they do not name."""
    if isinstance(schema, dict):
        found = {key: closed(value) for key, value in schema.items()}
        return found | ({"additionalProperties": False} if "properties" in schema and schema.get("type") == "object" else {})
    return [closed(each) for each in schema] if isinstance(schema, list) else schema


CLOSED = closed(SCHEMAS)


@pytest.mark.slow
@pytest.mark.parametrize("method", ONES, ids=lambda method: method.name)
def test_a_reply_has_the_form_that_is_described(lab, checkpoints, method):
    requests = good(checkpoints["bert"])
    if method.name == "UnloadModel":
        lab.ask(METHODS["/bertscope.v1.ModelService/LoadModel"], requests["LoadModel"].SerializeToString())
    before = lab.names()
    replies = lab.ask(method, requests[method.name].SerializeToString())
    lab.unload_all_but(before)
    validator = Draft202012Validator({"$ref": REPLIES[method.path].replace("components/schemas", "$defs"), "$defs": CLOSED})
    assert replies
    for each in replies:
        # As Envoy is set: a 0 is written.
        validator.validate(MessageToDict(method.response.FromString(each), always_print_fields_with_no_presence=True))
