"""Manifests for Kubernetes: built as `kubectl apply -k` builds them, and held against Kubernetes' own schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from deploy.tools import Broken, run

Manifest = dict[str, Any]

OLDEST = "1.31"
"""The oldest Kubernetes that knows all that the manifests ask for: `unhealthyPodEvictionPolicy` is stable since then."""

VERSIONS = (OLDEST, kubernetes_validate.latest_version())

FOREIGN = frozenset({("monitoring.coreos.com/v1", "ServiceMonitor"), ("monitoring.coreos.com/v1", "PrometheusRule")})
"""Kinds of the Prometheus operator, whose schemas Kubernetes does not have."""


def kustomizations(root: Path) -> list[Path]:
    """The folders below one that `kubectl apply -k` takes: bases and overlays, not the components that these are made of."""
    files = sorted(root.rglob("kustomization.yaml"))
    return [path.parent for path in files if yaml.safe_load(path.read_text(encoding="utf-8"))["kind"] == "Kustomization"]


def build(folder: Path) -> list[Manifest]:
    """All objects of a kustomization. Raises Broken if it can't be built."""
    return list(yaml.safe_load_all(run(["kubectl", "kustomize", "."], folder)))


def validate(manifest: Manifest, version: str) -> None:
    """Hold an object against the schema of one version of Kubernetes. Raises Broken, also for fields that the schema lacks."""
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        if (manifest["apiVersion"], manifest["kind"]) not in FOREIGN:
            raise Broken(f"{name}: Kubernetes {version} knows no {manifest['kind']} of {manifest['apiVersion']}") from None
    except kubernetes_validate.ValidationError as error:
        place = ".".join(str(part) for part in error.path)
        raise Broken(f"{name}: {place or 'the object'} is wrong for Kubernetes {version}: {error.message}") from error
