"""What `make check` says of deployment files and locked packages: what is wrong, and what nobody looked at."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.deploy import audit, check
from tools.deploy.programs import Broken, NotInstalled, run

ROOT = Path(__file__).parents[3]
DEPLOYMENT = "deploy/kubernetes/base/deployment.yaml"
NETWORK = "deploy/kubernetes/base/network.yaml"
ALERTS = "deploy/prometheus/alerts.yml"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what is deployed."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def lines(checked: Iterator[str]) -> list[str]:
    """What a check prints; the test is skipped where its program has no package for this machine."""
    try:
        return list(checked)
    except NotInstalled as missing:
        pytest.skip(str(missing))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (DEPLOYMENT, "replicas: 2", "replica: 2", "Deployment bertscope: spec is wrong for Kubernetes 1.31.*'replica'"),
        (NETWORK, "networking.k8s.io/v1", "networking.k8s.io/v1beta1", "knows no NetworkPolicy of networking.k8s.io/v1beta1"),
        ("deploy/kubernetes/components/gpu/gpu.yaml", "name: bertscope\nspec", "name: bertscop\nspec", "no matches"),
    ],
    ids=["unknown field", "unknown version", "patch of nothing"],
)
def test_broken_manifests_are_refused(copy: Path, file: str, old: str, new: str, complaint: str) -> None:
    replace(copy / file, old, new)
    with pytest.raises(Broken, match=f"(?s){complaint}"):
        lines(check.kubernetes(copy))


def test_rules_that_the_operator_would_not_get_are_refused(copy: Path) -> None:
    replace(copy / ALERTS, "severity: critical", "severity: warning")
    with pytest.raises(Broken, match=r"rules\.yaml is stale; run: python -m tools\.deploy\.generate"):
        lines(check.generated(copy))


def test_one_failure_is_told_and_does_not_hide_the_next(
    copy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(root: Path) -> Iterator[str]:
        yield "seen"
        raise Broken("this is wrong")

    def missing(root: Path) -> Iterator[str]:
        yield run(["no-such-program"], root)

    def good(root: Path) -> Iterator[str]:
        yield f"{root.name} is well"

    checks: tuple[Callable[[Path], Iterator[str]], ...] = (broken, missing, good)
    monkeypatch.setattr(check, "CHECKS", checks)
    assert check.main(copy) == 1
    told = capsys.readouterr()
    assert told.out.splitlines() == ["seen", "missing: not checked, no-such-program is not installed", f"{copy.name} is well"]
    assert told.err == "this is wrong\n"
    monkeypatch.setattr(check, "CHECKS", (missing, good))
    assert check.main(copy) == 0


CLEAN: dict[str, Any] = {"name": "numpy", "version": "2.0.0", "vulns": []}
UNKNOWN: dict[str, Any] = {"name": "ours", "skip_reason": "Dependency not found on PyPI and could not be audited: ours (1.0)"}
VULNERABLE: dict[str, Any] = {
    "name": "requests",
    "version": "2.19.0",
    "vulns": [
        {"id": "PYSEC-2018-28", "fix_versions": ["2.20.0"], "aliases": [], "description": ""},
        {"id": "PYSEC-2099-1", "fix_versions": [], "aliases": [], "description": ""},
    ],
}


@pytest.mark.parametrize(
    ("packages", "status", "out", "err"),
    [
        ([CLEAN], 0, "0 known vulnerabilities in 1 packages", ""),
        ([CLEAN, UNKNOWN], 0, "0 known vulnerabilities in 1 packages; unknown to the service: ours", ""),
        ([UNKNOWN], 0, "not audited, the vulnerability service knows none of its packages", ""),
        (
            [CLEAN, VULNERABLE],
            1,
            "2 known vulnerabilities in 2 packages",
            "requests 2.19.0: PYSEC-2018-28, fixed in 2.20.0\nrequests 2.19.0: PYSEC-2099-1, fixed in no version yet\n",
        ),
    ],
    ids=["clean", "some unknown", "all unknown", "vulnerable"],
)
def test_an_audit_tells_what_was_really_looked_at(
    capsys: pytest.CaptureFixture[str], packages: list[dict[str, Any]], status: int, out: str, err: str
) -> None:
    report = json.dumps({"dependencies": packages, "fixes": []})
    assert audit.tell(audit.interpret(report, "Found some")) == status
    assert capsys.readouterr() == (f"uv.lock: {out}\n", err)


@pytest.mark.parametrize(
    "complaint",
    [
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='...', port=443): Max retries exceeded",
        "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed",
    ],
)
def test_a_service_that_does_not_answer_is_told_and_no_failure(capsys: pytest.CaptureFixture[str], complaint: str) -> None:
    assert audit.tell(audit.interpret("", complaint)) == 0
    assert capsys.readouterr().out == "uv.lock: not audited, the vulnerability service can't be reached\n"
