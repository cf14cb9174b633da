"""What holds for every rpc: rules of fields are checked before anything else, the largest requests hold no event loop, models
that lack a head are refused by its name, and replies are what the OpenAPI description says."""

import json
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from bertscope_service.api.field_checks import CHECKS, check_fields
from bertscope_service.api.limits import RequestLimits
from bertscope_service.contract import METHODS, Method, Work
from bertscope_service.errors import InvalidArgument
from bertscope_service.settings import Settings
from google.protobuf.json_format import MessageToDict
from jsonschema import Draft202012Validator

from tests.support.harness import Failure, Host, refused
from tests.support.patience import granted
from tools.protos import rules
from tools.protos.borders import Borders
from tools.protos.files import PROTOS, described
from tools.protos.largest import Largest
from tools.protos.openapi import PATH
from tools.protos.samples import good

CHECKED = [method for method in METHODS.values() if method.request.DESCRIPTOR.full_name in CHECKS]


@pytest.fixture(scope="module")
def contract() -> rules.Contract:
    return rules.read(described(PROTOS))


@pytest.mark.slow
@pytest.mark.parametrize("method", CHECKED, ids=lambda method: method.name)
def test_a_request_that_breaks_a_rule_is_refused_for_that(lab: Host, contract: rules.Contract, method: Method) -> None:
    usual = Settings()
    limits = RequestLimits(usual.max_texts, usual.max_text_characters, usual.max_candidates, tokens=0)
    borders = Borders(contract, limits).of(method.request.DESCRIPTOR.full_name)
    request = next(border.request for border in borders if not border.kept)
    with pytest.raises(InvalidArgument) as expected:
        check_fields(request, limits)
    with pytest.raises(grpc.RpcError) as caught:
        lab.ask(method, request.SerializeToString())
    found = Failure(caught.value)
    assert (found.fields, found.info.reason) == ([expected.value.field], expected.value.reason)
    assert found.message == expected.value.message


LARGEST = Largest()
ASKING = [method for method in METHODS.values() if method.work in {Work.INTERACTIVE, Work.BULK}]
PATIENCE_SECONDS = 0.1
"""An answer may take minutes; what the loop does for it comes first."""


@pytest.mark.slow
@pytest.mark.usefixtures("brief", "offline")
@pytest.mark.parametrize("method", ASKING, ids=lambda method: method.name)
def test_no_request_holds_the_loop(
    lab: Host, checkpoints: dict[str, Path], check_alive: Callable[[Host], None], method: Method
) -> None:
    """The fixture `never_held` looks."""
    sample = good(checkpoints["bert"])[method.name]
    for path, request in [*LARGEST.of(sample), ("all lists", LARGEST.whole(sample))]:
        try:
            lab.ask(method, request.SerializeToString(), timeout=granted(PATIENCE_SECONDS))
        except grpc.RpcError as error:
            assert error.code() not in {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}, path
    check_alive(lab)


OF_MASKS = ["FillMask", "ScoreTexts", "CompareTexts", "QueryFacts", "ReadLayers", "AttributeLogits", "AttributeWords"]
OF_MASKS += ["SweepHeads", "SweepSites", "RankHeads", "TrainLens"]
LACKING = {
    "NO_MASKED_LM_HEAD": (OF_MASKS, ["headless", "sorter"]),
    "NO_CLASSIFICATION_HEAD": (["Classify"], ["bert", "rater"]),
    "NO_REGRESSION_HEAD": (["PredictValues"], ["bert", "sorter", "topics"]),
    "NO_TOKEN_CLASSIFICATION_HEAD": (["ClassifyTokens"], ["bert", "sorter"]),
    "NO_QUESTION_ANSWERING_HEAD": (["AnswerQuestions"], ["bert", "tagger"]),
}

LACKS = [(reason, name, model) for reason, (names, models) in LACKING.items() for name in names for model in models]


@pytest.mark.slow
@pytest.mark.parametrize(("reason", "name", "model"), LACKS)
def test_a_question_is_refused_by_the_head_that_it_needs(
    lab: Host, checkpoints: dict[str, Path], reason: str, name: str, model: str
) -> None:
    request = good(checkpoints["bert"])[name]
    request.model = f"models/{model}"  # type: ignore[attr-defined]
    method = next(method for method in METHODS.values() if method.name == name)
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        lab.ask(method, request.SerializeToString())
    assert (failures[0].info.reason, failures[0].info.metadata["model"]) == (reason, f"models/{model}")
    assert f"models/{model}" in failures[0].message and ";" in failures[0].message


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


@pytest.mark.usefixtures("brief")
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
