"""Prometheus' rules as an object for the Prometheus operator, and as a file of the Helm chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

CONFIGURATION = Path("deploy/prometheus/prometheus.yml")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def rule_groups(root: Path) -> str:
    """Returns the groups of the rule files that Prometheus' own configuration names."""
    configuration = root / CONFIGURATION
    files = yaml.safe_load(configuration.read_text(encoding="utf-8"))["rule_files"]
    groups: list[dict[str, Any]] = [
        group for name in files for group in yaml.safe_load((configuration.parent / name).read_text(encoding="utf-8"))["groups"]
    ]
    return _dumped({"groups": groups})


def rule_object(root: Path) -> str:
    """Returns the object for the operator."""
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "bertscope", "labels": {"app.kubernetes.io/name": "bertscope"}},
        "spec": yaml.safe_load(rule_groups(root)),
    }
    return _dumped(rule)


def _dumped(content: Any) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
