"""Envoy's configuration agrees with the contract and with the client."""

import base64
import re
from pathlib import Path
from typing import Any

import yaml
from bertscope_service import contract
from google.api import annotations_pb2
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorSet, MethodDescriptorProto
from google.rpc import error_details_pb2, status_pb2

ENVOY = Path(__file__).parents[3] / "deploy" / "envoy"
CONFIGURATION = yaml.safe_load((ENVOY / "envoy.yaml").read_text(encoding="utf-8"))
(LISTENER,) = CONFIGURATION["static_resources"]["listeners"]
MANAGER = LISTENER["filter_chains"][0]["filters"][0]["typed_config"]
(TRANSCODER,) = (found["typed_config"] for found in MANAGER["http_filters"] if found["name"].endswith("transcoder"))
(HOST,) = MANAGER["route_config"]["virtual_hosts"]
ROUTES = HOST["routes"]
DESCRIPTORS = FileDescriptorSet.FromString((ENVOY / TRANSCODER["proto_descriptor"]).read_bytes())
METHODS = {
    (f"{file.package}.{service.name}", method.name): method
    for file in DESCRIPTORS.file
    for service in file.service
    for method in service.method
}
OURS = [name for name in METHODS if name[0].startswith("bertscope.")]


def route_of(path: str) -> dict[str, Any]:
    """The first route that matches, as Envoy takes it."""
    for entry in ROUTES:
        match = entry["match"]
        if match.get("path") == path or path.startswith(match.get("prefix", path + "/")):
            route: dict[str, Any] = entry["route"]
            return route
    raise AssertionError(path)


def http_rules(method: MethodDescriptorProto) -> list[tuple[str, str]]:
    """Verb and path of each way to make a call over HTTP."""
    rule = method.options.Extensions[annotations_pb2.http]
    return [(one.WhichOneof("pattern"), one.get or one.post) for one in (rule, *rule.additional_bindings)]


def test_only_what_reads_is_asked_again() -> None:
    for service, method in METHODS:
        path = f"/{service}/{method}"
        policy = route_of(path).get("retry_policy", HOST["retry_policy"])
        assert ("retry_on" in policy) == contract.METHODS[path].idempotent, path
    assert route_of("/bertscope.v1.ClozeService/Unknown")["retry_policy"] == {}


def test_only_short_calls_are_counted() -> None:
    for path, method in contract.METHODS.items():
        short = method.work is contract.Work.INTERACTIVE and not method.streaming
        assert route_of(path).get("priority", "DEFAULT") == ("DEFAULT" if short else "HIGH"), path
    for path in (*(method.path for method in contract.HEALTH), "/bertscope.v1.ClozeService/Unknown"):
        assert route_of(path)["priority"] == "HIGH"


def test_a_call_too_many_is_refused_as_a_server_refuses_it() -> None:
    """The same google.rpc.Status as JSON and, by a script, in gRPC's trailers."""
    (mapper,) = MANAGER["local_reply_config"]["mappers"]
    status = json_format.ParseDict(mapper["body_format_override"]["json_format"], status_pb2.Status())
    (script,) = (found["typed_config"] for found in MANAGER["http_filters"] if found["name"].endswith(".lua"))
    replaced = dict(re.findall(r'replace\("([^"]+)", "([^"]+)"\)', script["default_source_code"]["inline_string"]))
    details = replaced["grpc-status-details-bin"]
    assert status_pb2.Status.FromString(base64.b64decode(details + "=" * (-len(details) % 4))) == status
    assert (replaced["grpc-status"], replaced["grpc-message"]) == (str(status.code), status.message)
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert [any(detail.Unpack(kind) for detail in status.details) for kind in (info, retry)] == [True, True]
    assert (info.domain, info.reason) == ("bertscope", "SERVER_LIMIT")
    assert retry.retry_delay.ToTimedelta().total_seconds() > 0


def test_no_call_is_cut_off_by_the_proxy() -> None:
    assert {entry["route"]["timeout"] for entry in ROUTES} == {"0s"}
    assert MANAGER["stream_idle_timeout"] == "0s"


def test_every_call_can_be_made_over_http_and_none_by_the_path_of_another() -> None:
    rules = [rule for name in OURS for rule in http_rules(METHODS[name])]
    assert all(verb in {"get", "post"} and path.startswith("/v1") for verb, path in rules)
    assert len(set(rules)) == len(rules)
    assert set(TRANSCODER["services"]) == {service for service, _ in OURS}


def test_it_listens_on_this_machine_only() -> None:
    for place in (CONFIGURATION["admin"], LISTENER):
        assert place["address"]["socket_address"]["address"] == "127.0.0.1"
