"""Dashboard, rules and their page agree with the metrics that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.metric_names import METRIC_NAMES

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs/watching.md").read_text(encoding="utf-8")
HISTOGRAM_SUFFIX = re.compile(r"_(bucket|sum|count)$")


def rules(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "prometheus" / name).read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


DASHBOARD = json.loads((DEPLOY / "grafana/dashboards/bertscope.json").read_text(encoding="utf-8"))
PANELS = DASHBOARD["panels"]
GRAPHS = [panel for panel in PANELS if panel["type"] != "row"]
ALERTS = rules("alerts.yml")
RECORDINGS = {rule["record"]: rule["expr"] for rule in rules("recordings.yml")}


def queries() -> Iterator[str]:
    """Every piece of PromQL that is shown or alerted on."""
    for panel in GRAPHS:
        yield from (target["expr"] for target in panel["targets"])
    yield from (variable["query"] for variable in DASHBOARD["templating"]["list"])
    yield from (rule["expr"] for rule in ALERTS)


def named(query: str) -> set[str]:
    """The metrics that a query asks for; for what is recorded, those that it is made from."""
    names = set(re.findall(r"[\w:]+", query))
    recorded = {name for name in names if ":bertscope" in name}
    return {name for name in names if name.startswith("bertscope_")}.union(*(named(RECORDINGS[name]) for name in recorded))


def test_every_metric_asked_for_exists() -> None:
    asked = {name for query in [*queries(), *RECORDINGS.values()] for name in named(query)}
    unknown = {name for name in asked if {name, HISTOGRAM_SUFFIX.sub("", name)}.isdisjoint(METRIC_NAMES)}
    assert asked and not unknown


def test_every_metric_is_shown() -> None:
    assert {HISTOGRAM_SUFFIX.sub("", name) for query in queries() for name in named(query)} >= METRIC_NAMES


def test_alerts_say_how_urgent_they_are_and_what_happened() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)
    for rule in ALERTS:
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["description"], rule["alert"]
        # One bad moment is no alert: it lasts, or what is asked is about a while.
        assert "for" in rule or re.search(r"\b(increase|changes)\(", rule["expr"]), rule["alert"]


def test_every_alert_and_recording_is_tested() -> None:
    tests = {
        name: yaml.safe_load((DEPLOY / f"prometheus/tests/{name}.test.yml").read_text()) for name in ("alerts", "recordings")
    }
    cases = [case for test in tests["alerts"]["tests"] for case in test["alert_rule_test"]]
    for outcome in (True, False):
        assert {case["alertname"] for case in cases if bool(case["exp_alerts"]) is outcome} == {
            rule["alert"] for rule in ALERTS
        }
    asked = " ".join(case["expr"] for test in tests["recordings"]["tests"] for case in test["promql_expr_test"])
    assert set(re.findall(r"[\w:]+:bertscope[\w:]+", asked)) == set(RECORDINGS)


def test_the_page_lists_every_metric_and_every_alert() -> None:
    assert set(re.findall(r"^\| `(Bertscope\w+)` \|", PAGE, flags=re.MULTILINE)) == {rule["alert"] for rule in ALERTS}
    assert set(re.findall(r"`(bertscope_\w+)`", PAGE)) == METRIC_NAMES
    assert set(re.findall(r"`([\w:]+:bertscope[\w:]+)`", PAGE)) == set(RECORDINGS)
