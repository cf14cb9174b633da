"""What the manifests for Kubernetes name exists: in each other, in the image, in the server and in its command."""

import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import bertscope
import pytest
import typer
import yaml
from bertscope_service.settings import Settings
from bertscope_workbench.command.app import app
from pydantic import ValidationError

from tests.support.kubernetes import KUBERNETES, OVERLAY, PAGE, ROOT, Cluster, built
from tests.support.metric_names import METRIC_NAMES
from tools.deploy.manifests import FOREIGN, OLDEST, kustomizations
from tools.deploy.programs import NotInstalled, run

COMPONENTS = KUBERNETES / "components"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
ADAPTER = yaml.safe_load((COMPONENTS / "autoscaling" / "prometheus-adapter.yaml").read_text(encoding="utf-8"))
OURS = "docs/kubernetes.md"
PLACES = [*(str(folder.relative_to(KUBERNETES)) for folder in kustomizations(KUBERNETES)), OURS]


def made_by(rule: dict[str, Any]) -> str:
    """The metric that a rule of the adapter makes."""
    name: str = rule.get("name", {}).get("as") or rule["seriesQuery"].partition("{")[0]
    return name


@pytest.fixture(scope="module", params=PLACES)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    if request.param != OURS:
        return built(KUBERNETES / request.param)
    root = tmp_path_factory.mktemp("documented")
    shutil.copytree(ROOT / "deploy", root / "deploy")
    (root / "ours").mkdir()
    (root / "ours" / "kustomization.yaml").write_text(OVERLAY, encoding="utf-8")
    return built(root / "ours")


@pytest.fixture
def settings(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What a server makes of a pod's variables."""
    for name in [name for name in os.environ if name.startswith("BERTSCOPE_")]:
        monkeypatch.delenv(name)
    for name, value in cluster.variables.items():
        monkeypatch.setenv(name, value)
    return Settings()


def test_every_component_is_part_of_what_is_checked() -> None:
    files = [path.read_text(encoding="utf-8") for path in KUBERNETES.glob("overlays/*/kustomization.yaml")]
    used = set(re.findall(r"/components/([\w-]+)", "".join([*files, OVERLAY])))
    assert used == {folder.name for folder in COMPONENTS.iterdir()}
    assert f"Kubernetes {OLDEST} or newer" in PAGE


@pytest.mark.slow
def test_everything_that_selects_pods_finds_them(cluster: Cluster) -> None:
    selectors = [cluster.deployment["spec"]["selector"]["matchLabels"]]
    selectors += [service["spec"]["selector"] for service in cluster.of("Service")]
    selectors += [budget["spec"]["selector"]["matchLabels"] for budget in cluster.of("PodDisruptionBudget")]
    selectors += [policy["spec"]["podSelector"]["matchLabels"] for policy in cluster.of("NetworkPolicy")]
    selectors += [spread["labelSelector"]["matchLabels"] for spread in cluster.pod["topologySpreadConstraints"]]
    assert len(selectors) >= 6
    assert all(cluster.selects_pods(selector) for selector in selectors)


def test_ports_are_the_server_s_own(cluster: Cluster) -> None:
    defaults = {name: Settings.model_fields[name].default for name in ("port", "metrics_port")}
    assert cluster.ports == {"grpc": defaults["port"], "metrics": defaults["metrics_port"]}
    for service in cluster.of("Service"):
        for port in service["spec"]["ports"]:
            assert cluster.ports[port["targetPort"]] == port["port"]
    for policy in cluster.of("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            assert all(port["port"] in cluster.ports for port in rule["ports"])


def test_every_variable_is_a_setting_or_tells_the_probes_how_to_connect(cluster: Cluster, settings: Settings) -> None:
    commands: Any = typer.main.get_command(app)
    probing = {option.envvar for option in commands.commands["health"].params} & cluster.variables.keys()
    assert settings.model_fields_set == {name.removeprefix("BERTSCOPE_").lower() for name in cluster.variables.keys() - probing}
    assert not probing or any("exec" in probe for probe in cluster.probes)


def test_no_variable_of_kubernetes_is_taken_for_a_setting(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    (name, *_) = (service["metadata"]["name"] for service in cluster.of("Service"))
    monkeypatch.setenv(f"{name.upper()}_PORT", "tcp://10.0.0.1:50051")  # as Kubernetes would for each Service
    with pytest.raises(ValidationError):
        Settings()
    assert cluster.pod["enableServiceLinks"] is False


def test_a_pod_has_time_to_drain(cluster: Cluster, settings: Settings) -> None:
    assert settings.drain_seconds > 0
    assert cluster.pod["terminationGracePeriodSeconds"] >= settings.drain_seconds + settings.grace_seconds + 5


def test_commands_are_those_of_the_image(cluster: Cluster) -> None:
    assert not {"args", "command"} & set(cluster.container)
    for probe in cluster.probes:
        if "exec" in probe:
            assert probe["exec"]["command"] == ["bertscope-server", "health"]
        else:
            assert probe["grpc"]["port"] == cluster.ports["grpc"]


def test_probes_are_those_that_the_transport_allows(cluster: Cluster) -> None:
    encrypted = "BERTSCOPE_TLS_CERTIFICATE" in cluster.settings
    assert {("exec" in probe, "grpc" in probe) for probe in cluster.probes} == {(encrypted, not encrypted)}


def test_files_that_are_named_are_mounted(cluster: Cluster) -> None:
    volumes = {volume["name"]: volume for volume in cluster.pod["volumes"]}
    mounts = {PurePosixPath(mount["mountPath"]): volumes[mount["name"]] for mount in cluster.container["volumeMounts"]}
    assert len(mounts) == len(volumes)
    named = [value for value in cluster.settings.values() if value.startswith("/")]
    assert {PurePosixPath(path).parent for path in named} <= mounts.keys()
    assert not any("subPath" in mount for mount in cluster.container["volumeMounts"])
    secrets = {volume["secret"]["secretName"] for volume in volumes.values() if "secret" in volume}
    assert all(f"`{secret}`" in PAGE or f"generic {secret}" in PAGE for secret in secrets)


def test_what_the_image_writes_to_is_writable_and_nothing_else(cluster: Cluster) -> None:
    assert cluster.container["securityContext"]["readOnlyRootFilesystem"]
    kept = {volume["name"] for volume in cluster.pod["volumes"] if {"emptyDir", "persistentVolumeClaim"} & volume.keys()}
    writable = {mount["mountPath"] for mount in cluster.container["volumeMounts"] if mount["name"] in kept}
    assert writable == {"/models", "/tmp"}
    assert set(re.findall(r"=(/models)/", DOCKERFILE)) == {"/models"}


def test_pods_share_a_volume_that_many_nodes_may_write(cluster: Cluster) -> None:
    claims = {claim["metadata"]["name"]: claim for claim in cluster.of("PersistentVolumeClaim")}
    named = {volume.get("persistentVolumeClaim", {}).get("claimName") for volume in cluster.pod["volumes"]} - {None}
    assert named == claims.keys()
    assert all(claim["spec"]["accessModes"] == ["ReadWriteMany"] for claim in claims.values())


def test_pods_have_no_rights(cluster: Cluster) -> None:
    (namespace,) = cluster.of("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    (account,) = cluster.of("ServiceAccount")
    assert account["automountServiceAccountToken"] is cluster.pod["automountServiceAccountToken"] is False
    assert account["metadata"]["name"] == cluster.pod["serviceAccountName"]
    context = cluster.pod["securityContext"]
    assert context["runAsNonRoot"] and context["seccompProfile"] == {"type": "RuntimeDefault"}
    user = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == user
    container = cluster.container["securityContext"]
    assert container["allowPrivilegeEscalation"] is False and container["capabilities"] == {"drop": ["ALL"]}


def test_images_have_the_version(cluster: Cluster) -> None:
    _, _, tag = cluster.container["image"].partition(":")
    on_gpu = "nvidia.com/gpu" in cluster.container["resources"]["limits"]
    assert tag == bertscope.__version__ + ("-gpu" if on_gpu else "")
    assert (cluster.settings.get("BERTSCOPE_DEVICE") == "cuda:0") == on_gpu


def test_the_autoscaler_scales_the_deployment_by_metrics_that_the_adapter_makes(cluster: Cluster) -> None:
    made = {made_by(rule) for rule in ADAPTER["rules"]["custom"]}
    for scaler in cluster.of("HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == ("Deployment", cluster.deployment["metadata"]["name"])
        metrics = scaler["spec"]["metrics"]
        if metrics[0]["type"] == "Resource":  # its share of what the container requests
            (name,) = (metric["resource"]["name"] for metric in metrics)
            assert name in cluster.container["resources"]["requests"]
        else:
            assert {metric["pods"]["metric"]["name"] for metric in metrics} == made
        assert "replicas" not in cluster.deployment["spec"]


def test_the_adapter_reads_metrics_that_exist_by_labels_that_prometheus_adds() -> None:
    for rule in ADAPTER["rules"]["custom"]:
        name, _, labels = rule["seriesQuery"].partition("{")
        assert not {name, name.removesuffix("_sum")}.isdisjoint(METRIC_NAMES)
        assert set(re.findall(r"(\w+)!=", labels)) == set(rule["resources"]["overrides"]) == {"namespace", "pod"}
        assert all(part in rule["metricsQuery"] for part in ("<<.GroupBy>>", "<<.Series>>", "<<.LabelMatchers>>"))


@pytest.mark.parametrize(
    ("metric", "series", "expected"),
    [
        ("bertscope_queue_seconds", {"cuda:0": "4x9 0x9", "cuda:1": "1x9 0x9"}, 4),
        ("bertscope_device_busy_ratio", {"cuda:0": "0+60x20", "cuda:1": "0+30x20"}, 0.75),
    ],
)
def test_the_adapter_makes_one_number_of_all_devices_of_a_pod(
    tmp_path: Path, metric: str, series: dict[str, str], expected: float
) -> None:
    (rule,) = (rule for rule in ADAPTER["rules"]["custom"] if made_by(rule) == metric)
    name = rule["seriesQuery"].partition("{")[0]
    query = rule["metricsQuery"].replace("<<.Series>>", name).replace("<<.GroupBy>>", "pod")
    samples = [{"series": f'{name}{{pod="a",device="{device}"}}', "values": values} for device, values in series.items()]
    test = {
        "interval": "1m",
        "input_series": samples,
        "promql_expr_test": [
            {
                "expr": query.replace("<<.LabelMatchers>>", 'pod="a"'),
                "eval_time": "9m",
                "exp_samples": [{"labels": '{pod="a"}', "value": expected}],
            }
        ],
    }
    (tmp_path / "adapter.test.yml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}), encoding="utf-8")
    try:
        assert "SUCCESS" in run(["promtool", "test", "rules", "adapter.test.yml"], tmp_path)
    except NotInstalled as missing:
        pytest.skip(str(missing))


def test_prometheus_asks_each_pod_once_and_calls_it_as_the_rules_do(cluster: Cluster) -> None:
    for monitor in cluster.of("ServiceMonitor"):
        labels = monitor["spec"]["selector"]["matchLabels"]
        chosen = [one for one in cluster.of("Service") if labels.items() <= one["metadata"]["labels"].items()]
        (endpoint,) = monitor["spec"]["endpoints"]
        (service,) = (one for one in chosen if endpoint["port"] in {port["name"] for port in one["spec"]["ports"]})
        job = service["metadata"]["labels"][monitor["spec"]["jobLabel"]]
        (rules,) = cluster.of("PrometheusRule")
        expressions = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
        assert set(re.findall(r'job="(\w+)"', "".join(expressions))) == {job}
    assert {(one["apiVersion"], one["kind"]) for one in cluster.manifests if "monitoring" in one["apiVersion"]} <= FOREIGN


def test_only_those_who_are_named_get_in(cluster: Cluster) -> None:
    for policy in cluster.of("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            for peer in rule["from"]:
                assert peer.get("podSelector") or peer["namespaceSelector"], policy["metadata"]["name"]
    assert '`bertscope-client: "true"`' in PAGE
