"""A real Prometheus scrapes a real server: it takes the page, our rules run on it, and so does every query of the dashboard."""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bertscope.v1 import cloze_pb2 as cloze

from tests.support.patience import granted
from tests.support.process import Process
from tests.support.prometheus import FOLDER, Prometheus, program

pytestmark = pytest.mark.slow

DASHBOARD = json.loads((FOLDER.parent / "grafana/dashboards/bertscope.json").read_text(encoding="utf-8"))
VARIABLES = {"$instance": ".*", "$method": ".*", "$__rate_interval": "1m"}
QUESTION = cloze.FillMaskRequest(texts=["Paris is the capital of [MASK]."])


def metrics_address(server: Process) -> str:
    return f"127.0.0.1:{server.ports['metrics_port']}"


@pytest.fixture(scope="module")
def prometheus(embedded: Process, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has seen calls come in, and has recorded what our rules record."""
    with Prometheus(tmp_path_factory.mktemp("prometheus"), metrics_address(embedded)) as running:
        running.wait_for('up{job="bertscope"} == 1', "it has asked the server once")
        before = running.values('sum(bertscope_requests_total{method="FillMask",code="OK"}) or vector(0)')[0]
        embedded.cloze.FillMask(QUESTION, timeout=granted(60))
        seen = f'sum(bertscope_requests_total{{method="FillMask",code="OK"}}) > {before}'
        running.wait_for(seen, "it has seen the call")
        running.wait_for('job_instance_method:bertscope_requests:rate5m{method="FillMask"} > 0', "the rules have run on that")
        yield running


def test_promtool_finds_nothing_wrong_with_the_page(embedded: Process) -> None:
    embedded.cloze.FillMask(QUESTION, timeout=granted(60))
    with urllib.request.urlopen(f"http://{metrics_address(embedded)}/metrics", timeout=granted(10)) as page:
        text = page.read()
    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, timeout=granted(60))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_every_rule_runs_and_no_alert_fires_on_a_healthy_server(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == sum(path.read_text(encoding="utf-8").count(f"- {kind}:") for path, kind in rule_files())
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    assert [rule["name"] for rule in rules if rule["type"] == "alerting" and rule["state"] == "firing"] == []


def rule_files() -> Iterator[tuple[Path, str]]:
    yield FOLDER / "alerts.yml", "alert"
    yield FOLDER / "recordings.yml", "record"


def test_every_recording_has_a_value(prometheus: Prometheus) -> None:
    for rule in re.findall(r"record: (\S+)", (FOLDER / "recordings.yml").read_text(encoding="utf-8")):
        prometheus.wait_for(rule, f"{rule} is recorded")


def test_every_query_of_the_dashboard_is_understood(prometheus: Prometheus) -> None:
    answered = 0
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            answered += bool(prometheus.values(query))
    assert answered > len(DASHBOARD["panels"]) / 2
    for variable in DASHBOARD["templating"]["list"]:
        if found := re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]):
            assert prometheus.get(f"label/{found[2]}/values", **{"match[]": found[1]})


@pytest.mark.parametrize("path", sorted((FOLDER / "tests").glob("*.test.yml")), ids=lambda path: path.stem)
def test_alerts_and_recordings_do_what_their_tests_say(path: Path) -> None:
    done = subprocess.run([program("promtool"), "test", "rules", path], capture_output=True, text=True, timeout=granted(60))
    assert done.returncode == 0, done.stdout
