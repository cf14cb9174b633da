"""Writes the deployment files that are made of others.

    python -m tools.deploy.generate   write them

kustomize reads no files outside its folders and puts none into an object's fields, and Envoy reads no variables, so these files
are made here: `make check` fails when one is stale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.deploy import in_cluster, rules

ROOT = Path(__file__).resolve().parents[2]
HEADER = "# Made from {}. Do not edit; run `python -m tools.deploy.generate`.\n"

FILES: Mapping[Path, tuple[str, Callable[[Path], str]]] = {
    Path("deploy/kubernetes/components/monitoring/rules.yaml"): ("the rule files of deploy/prometheus", rules.rule_object),
    Path("deploy/helm/bertscope/files/rules.yaml"): ("the rule files of deploy/prometheus", rules.rule_groups),
    Path("deploy/envoy/in-cluster.yaml"): ("envoy.yaml, for the pods of a headless Service", in_cluster.rendered),
}
"""Files, their sources in words, and the functions that render them."""


def rendered(path: Path, root: Path) -> str:
    """Returns the content of one of the files."""
    source, render = FILES[path]
    return HEADER.format(source) + render(root)


def stale(root: Path) -> list[Path]:
    """Returns the files that are missing or not as they would be written."""
    return [path for path in FILES if not (root / path).exists() or (root / path).read_text("utf-8") != rendered(path, root)]


def write(root: Path) -> None:
    """Writes all files."""
    for path in FILES:
        (root / path).write_text(rendered(path, root), encoding="utf-8")


if __name__ == "__main__":
    write(ROOT)
