"""Checks the deployment files: manifests, the image, Prometheus' and Envoy's configuration.

    python -m tools.deploy.check   exit 1 if anything is wrong

A program without a package for this machine is named, and the files that it would check are left unchecked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.deploy import generate, helm, rules
from tools.deploy.manifests import build, kustomizations, validate, versions
from tools.deploy.programs import Broken, NotInstalled, run

ROOT = Path(__file__).resolve().parents[2]


def kubernetes(root: Path) -> Iterator[str]:
    """Builds every base and overlay, and checks each of its objects against the schemas of Kubernetes."""
    for folder in kustomizations(root / "deploy/kubernetes"):
        place, manifests = folder.relative_to(root), build(folder)
        for manifest in manifests:
            for version in versions():
                try:
                    validate(manifest, version)
                except Broken as error:
                    raise Broken(f"{place}: {error}") from error
        yield f"{place}: {len(manifests)} objects are valid for Kubernetes {' and '.join(versions())}"


def generated(root: Path) -> Iterator[str]:
    """Compares the files that are made of others with what they are made of."""
    if stale := generate.stale(root):
        raise Broken(f"{', '.join(map(str, stale))} is stale; run: python -m tools.deploy.generate")
    yield f"{len(generate.FILES)} files that are made of others are fresh"


def chart(root: Path) -> Iterator[str]:
    """Checks the Helm chart with helm, and its objects against the schemas of Kubernetes."""
    helm.lint(root)
    manifests = helm.rendered(root)
    for manifest in manifests:
        for version in versions():
            validate(manifest, version)
    yield f"{helm.CHART}: helm finds nothing, and its {len(manifests)} objects are valid"


def image(root: Path) -> Iterator[str]:
    """Checks the Dockerfile with hadolint."""
    run(["hadolint", "Dockerfile"], root)
    yield "Dockerfile: hadolint finds nothing"


def workflows(root: Path) -> Iterator[str]:
    """Checks the workflows of the public CI against their schema."""
    files = sorted(Path(".github/workflows").joinpath(path.name) for path in (root / ".github/workflows").glob("*.yml"))
    run(["check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files], root)
    yield f".github/workflows: {len(files)} files are valid"


def prometheus(root: Path) -> Iterator[str]:
    """Runs the rules' tests, and checks Prometheus' configuration."""
    run(["promtool", "check", "config", rules.CONFIGURATION], root)
    tests = sorted((root / rules.CONFIGURATION).parent.glob("tests/*.test.yml"))
    run(["promtool", "test", "rules", *tests], root)
    yield f"{rules.CONFIGURATION}: promtool finds nothing, and its rules pass {len(tests)} files of tests"


def envoy(root: Path) -> Iterator[str]:
    """Checks Envoy's configuration with Envoy."""
    folder = Path("deploy/envoy")
    for name in ("envoy.yaml", "in-cluster.yaml"):
        run(["envoy", "--mode", "validate", "--config-path", name], root / folder)
        yield f"{folder}/{name}: Envoy takes it"


CHECKS: tuple[Callable[[Path], Iterator[str]], ...] = (generated, kubernetes, chart, image, workflows, prometheus, envoy)


def main(root: Path = ROOT) -> int:
    """Runs all checks and returns the exit status."""
    clean = True
    for check in CHECKS:
        try:
            for line in check(root):
                print(line)
        except NotInstalled as missing:
            print(f"{check.__name__}: not checked, {missing}")
        except Broken as error:
            print(error, file=sys.stderr)
            clean = False
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
