"""What deploy/kubernetes makes: the objects of each base and overlay, and of the one in the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.deploy.manifests import Manifest, build
from tools.deploy.programs import NotInstalled

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
OVERLAY, INGRESS, CERTIFICATE, LITERALS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
"""The page's examples: an overlay of one's own, an Ingress, a certificate, and more settings for mutual TLS."""

CERTIFIED_NAMES: list[str] = yaml.safe_load(CERTIFICATE)["spec"]["dnsNames"]
MUTUAL_TLS = dict(literal.split("=", 1) for literal in yaml.safe_load(LITERALS))


def built(folder: Path) -> Cluster:
    """A kustomization's objects; the test is skipped where kubectl is not installed."""
    try:
        return Cluster(build(folder))
    except NotInstalled as missing:
        pytest.skip(str(missing))


class Cluster:
    """The objects of one kustomization, by kind and name: those of the server, and beside them those of Envoy."""

    def __init__(self, manifests: list[Manifest]) -> None:
        self.all = manifests
        self.envoy = [manifest for manifest in manifests if manifest["metadata"]["name"].startswith("bertscope-envoy")]
        self.manifests = [manifest for manifest in manifests if manifest not in self.envoy]
        (self.deployment,) = self.of("Deployment")
        self.template = self.deployment["spec"]["template"]
        self.pod = self.template["spec"]
        (self.container,) = self.pod["containers"]

    def of(self, kind: str) -> list[Manifest]:
        return [manifest for manifest in self.manifests if manifest["kind"] == kind]

    @property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container["ports"]}

    @property
    def settings(self) -> dict[str, str]:
        """The variables that a ConfigMap sets."""
        (source,) = self.container["envFrom"]
        (settings,) = (one for one in self.of("ConfigMap") if one["metadata"]["name"] == source["configMapRef"]["name"])
        data: dict[str, str] = settings["data"]
        return data

    @property
    def variables(self) -> dict[str, str]:
        """All variables of the server; what Kubernetes fills in is a number."""
        return self.settings | {entry["name"]: "2" for entry in self.container["env"]}

    @property
    def probes(self) -> list[dict[str, Any]]:
        return [self.container[f"{name}Probe"] for name in ("startup", "readiness", "liveness")]

    def selects_pods(self, selector: dict[str, str]) -> bool:
        """Whether a selector, which is not empty, finds our pods."""
        return bool(selector) and selector.items() <= self.template["metadata"]["labels"].items()
