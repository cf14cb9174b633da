"""Writes Prometheus' rules as an object for the Prometheus operator.

    python -m tools.deploy.rules   write it

kustomize reads no files outside its folders and puts none into an object's fields, so the object is made here: `make check`
fails when it is stale.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = Path("deploy/prometheus/prometheus.yml")
OBJECT = Path("deploy/kubernetes/components/monitoring/rules.yaml")
HEADER = "# Made from the rule files of deploy/prometheus. Do not edit; run `python -m tools.deploy.rules`.\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def rendered(root: Path) -> str:
    """Returns the object for the rule files named in Prometheus' own configuration."""
    configuration = root / CONFIGURATION
    files = yaml.safe_load(configuration.read_text(encoding="utf-8"))["rule_files"]
    groups: list[dict[str, Any]] = [
        group for name in files for group in yaml.safe_load((configuration.parent / name).read_text(encoding="utf-8"))["groups"]
    ]
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "bertscope", "labels": {"app.kubernetes.io/name": "bertscope"}},
        "spec": {"groups": groups},
    }
    return HEADER + yaml.dump(rule, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


if __name__ == "__main__":
    (ROOT / OBJECT).write_text(rendered(ROOT), encoding="utf-8")
