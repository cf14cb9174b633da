"""What deploy/ holds beside Kubernetes: containers and settings, dashboards, alerts and what they ask for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bertscope_service.settings import Settings

from tests.support.metric_names import METRIC_NAMES, PAGE

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


def load(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else list(yaml.safe_load_all(text))


(COMPOSE,) = load(DEPLOY / "compose.yaml")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
FINAL_STAGE = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[-1]


def instructions(name: str) -> list[str]:
    """The arguments of every `name` instruction of the final stage."""
    return re.findall(rf"^{name}\s+(.+)$", FINAL_STAGE, flags=re.MULTILINE)


def test_compose_publishes_what_the_image_exposes() -> None:
    (exposed,) = instructions("EXPOSE")
    service = COMPOSE["services"]["bertscope"]
    assert {port.rsplit(":", 1)[-1] for port in service["ports"]} == set(exposed.split())
    (configuration,) = load(DEPLOY / "prometheus/prometheus.yml")
    (job,) = configuration["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    host, port = target.split(":")
    assert host in COMPOSE["services"] and port in exposed.split()


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_containers_are_pinned_checked_restarted_and_read_only(name: str) -> None:
    service = COMPOSE["services"][name]
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"])
    assert service["read_only"] and service["restart"] == "unless-stopped" and service["healthcheck"]["test"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    mounted = [volume.split(":")[0] for volume in service["volumes"]]
    assert all((DEPLOY / source).exists() for source in mounted if source.startswith("."))
    assert {source for source in mounted if not source.startswith(".")} <= set(COMPOSE["volumes"])


def test_image_runs_as_a_numbered_user_and_is_checked() -> None:
    user = instructions("USER")[-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    (healthcheck,) = instructions("HEALTHCHECK")
    command = json.loads(healthcheck[healthcheck.index("[") :])
    assert command == COMPOSE["services"]["bertscope"]["healthcheck"]["test"][1:]
    assert command == ["bertscope-server", "health", "--target", f"127.0.0.1:{instructions('EXPOSE')[0].split()[0]}"]


def test_variables_of_containers_are_settings() -> None:
    given = {*re.findall(r"\bBERTSCOPE_(\w+)=", FINAL_STAGE), *re.findall(r"\bBERTSCOPE_(\w+):", yaml.safe_dump(COMPOSE))}
    assert given and {name.lower() for name in given} <= set(Settings.model_fields)


def test_image_is_built_only_from_files_that_reach_the_builder() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source for sources in re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE) for source in sources.split()
    }
    mounted = {
        source if source in allowed else source.split("/")[0]
        for source in re.findall(r"type=bind,source=([^,\s]+)", DOCKERFILE)
    }
    assert copied and copied | mounted <= allowed
    assert all((ROOT / name).exists() for name in allowed)


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
    assert set(re.findall(r"`([\w:]+:bertscope[\w:]+)`", PAGE)) == set(RECORDINGS)
