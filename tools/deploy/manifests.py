"""Builds manifests for Kubernetes as `kubectl apply -k` does, and checks them against Kubernetes' own schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tools.deploy.programs import Broken, run

Manifest = dict[str, Any]

OLDEST = "1.31"
"""The oldest Kubernetes that supports all fields of the manifests: `unhealthyPodEvictionPolicy` is stable since then."""

FOREIGN = frozenset(
    {
        ("gateway.networking.k8s.io/v1", "HTTPRoute"),
        ("monitoring.coreos.com/v1", "PrometheusRule"),
        ("monitoring.coreos.com/v1", "ServiceMonitor"),
    }
)
"""Kinds of the Gateway API and of the Prometheus operator, whose schemas Kubernetes does not have."""


def versions() -> tuple[str, str]:
    """Returns the oldest Kubernetes that the manifests support, and the newest whose schemas are known."""
    import kubernetes_validate  # takes seconds

    return OLDEST, kubernetes_validate.latest_version()


def kustomizations(root: Path) -> list[Path]:
    """Returns the folders below one that `kubectl apply -k` takes: bases and overlays, not their components."""
    files = sorted(root.rglob("kustomization.yaml"))
    return [path.parent for path in files if yaml.safe_load(path.read_text(encoding="utf-8"))["kind"] == "Kustomization"]


def build(folder: Path) -> list[Manifest]:
    """Returns all objects of a kustomization. Raises Broken if it can't be built."""
    return list(yaml.safe_load_all(run(["kubectl", "kustomize", "."], folder)))


def validate(manifest: Manifest, version: str) -> None:
    """Checks an object against the schema of one version of Kubernetes. Raises Broken, also for fields that the schema
    lacks."""
    import kubernetes_validate

    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        if (manifest["apiVersion"], manifest["kind"]) not in FOREIGN:
            raise Broken(f"{name}: Kubernetes {version} knows no {manifest['kind']} of {manifest['apiVersion']}") from None
    except kubernetes_validate.ValidationError as error:
        place = ".".join(str(part) for part in error.path)
        raise Broken(f"{name}: {place or 'the object'} is wrong for Kubernetes {version}: {error.message}") from error
