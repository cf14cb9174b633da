"""The Helm chart makes the objects of deploy/kubernetes, and refuses values that can't be meant."""

import copy
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import bertscope
import pytest
import yaml
from bertscope_service.settings import Settings

from tests.support.kubernetes import KUBERNETES, PAGE, ROOT, Cluster, built
from tools.deploy import helm
from tools.deploy.manifests import Manifest, validate, versions
from tools.deploy.programs import Broken, NotInstalled

OF_RELEASE = {"app.kubernetes.io/instance", "checksum/settings"}
"""Labels and annotations that the chart adds; those of objects themselves are not compared."""

WATCHED = ("monitoring.enabled=true", "autoscaling.enabled=true")
TWINS: dict[str, tuple[str, ...]] = {
    "base": (),
    "overlays/scaled": WATCHED,
    "overlays/gpu": (*WATCHED, "gpu.enabled=true"),
    "overlays/tls": (*WATCHED, "tls.enabled=true"),
    "overlays/outside": ("volume.enabled=true", "autoscaling.enabled=true", "autoscaling.by=cpu"),
}
"""The values that make the same as a kustomization."""


@pytest.fixture
def render() -> Callable[..., list[Manifest]]:
    def rendered(*values: str, release: str = "bertscope") -> list[Manifest]:
        try:
            return helm.rendered(ROOT, values, release)
        except NotInstalled as missing:
            pytest.skip(str(missing))

    return rendered


def alike(manifests: list[Manifest], settings: str) -> dict[tuple[str, str], Any]:
    """Objects by kind and name, without what only one of both tools writes."""
    found = {}
    for manifest in manifests:
        content = {name: part for name, part in manifest.items() if name != "metadata"}
        name = manifest["metadata"]["name"].replace(settings, "bertscope-settings")
        found[manifest["kind"], name] = stripped(copy.deepcopy(content), settings)
    return found


def stripped(value: Any, settings: str) -> Any:
    if isinstance(value, dict):
        kept = {name: stripped(part, settings) for name, part in value.items() if name not in OF_RELEASE}
        return {name: part for name, part in kept.items() if part != {} and name != "imagePullPolicy"}
    if isinstance(value, list):
        parts = [stripped(part, settings) for part in value]
        return sorted(parts, key=partial(json.dumps, sort_keys=True))  # kustomize puts what a patch adds first
    return "bertscope-settings" if value == settings else value


def settings_of(manifests: list[Manifest]) -> str:
    (name,) = (one["metadata"]["name"] for one in manifests if one["kind"] == "ConfigMap")
    return str(name)


FEW = ("base", "overlays/outside")


@pytest.mark.slow
@pytest.mark.parametrize("place", [place if place in FEW else pytest.param(place, marks=pytest.mark.slow) for place in TWINS])
def test_it_makes_the_objects_of_a_kustomization(render: Callable[..., list[Manifest]], place: str) -> None:
    ours = render(*TWINS[place])
    theirs = [one for one in built(KUBERNETES / place).manifests if one["kind"] not in {"Namespace", "HTTPRoute"}]
    assert alike(ours, settings_of(ours)) == alike(theirs, settings_of(theirs))


@pytest.mark.parametrize("values", [TWINS["base"], TWINS["overlays/tls"]], ids=["base", "overlays/tls"])
def test_every_object_is_valid_and_finds_its_pods_under_any_name(
    render: Callable[..., list[Manifest]], values: tuple[str, ...]
) -> None:
    manifests = render(*values, "settings.BERTSCOPE_MAX_REQUEST_TOKENS=2000000", release="team-a")
    for manifest in manifests:
        for version in versions():
            validate(manifest, version)
        assert manifest["metadata"]["name"].startswith("team-a-bertscope")
    cluster = Cluster(manifests)
    assert cluster.settings["BERTSCOPE_MAX_REQUEST_TOKENS"] == "2000000"
    for service in cluster.of("Service"):
        assert cluster.selects_pods(service["spec"]["selector"])
        assert "app.kubernetes.io/instance" in service["spec"]["selector"]
    named = {name.removeprefix("BERTSCOPE_").lower() for name in cluster.settings} - {"ca", "server_name"}
    assert named <= set(Settings.model_fields)
    assert cluster.settings.get("BERTSCOPE_SERVER_NAME", "team-a-bertscope.bertscope.svc") == "team-a-bertscope.bertscope.svc"


def test_a_pod_has_time_for_the_grace_that_is_set(render: Callable[..., list[Manifest]]) -> None:
    cluster = Cluster(render("settings.BERTSCOPE_GRACE_SECONDS=90", "settings.BERTSCOPE_DRAIN_SECONDS=5.5"))
    assert cluster.pod["terminationGracePeriodSeconds"] == 106


REFUSED = {
    "misspelt": ("autoscaling.enabld=true", "additional properties 'enabld' not allowed"),
    "no setting": ("settings.port=1", "does not match pattern"),
    "no number": ("replicas=many", "got string, want integer"),
    "no way to scale": ("autoscaling.by=memory", "value must be one of 'cpu', 'queue'"),
    "a GPU by its CPU": ("gpu.enabled=true,autoscaling.enabled=true,autoscaling.by=cpu", "set autoscaling.by=queue"),
    "fewer than the least": ("autoscaling.enabled=true,autoscaling.maxReplicas=1", "more than autoscaling.maxReplicas"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("values", "said"), REFUSED.values(), ids=REFUSED)
def test_values_that_can_not_be_meant_are_refused(render: Callable[..., list[Manifest]], values: str, said: str) -> None:
    with pytest.raises(Broken, match=said):
        render(*values.split(","))


def test_it_has_the_version_and_helm_finds_nothing_wrong() -> None:
    chart = yaml.safe_load((ROOT / helm.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == bertscope.__version__
    assert "deploy/helm/bertscope" in PAGE
    try:
        assert "ERROR" not in helm.lint(ROOT)
    except NotInstalled as missing:
        pytest.skip(str(missing))
