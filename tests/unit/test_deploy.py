"""The deployment files agree with the service and with each other."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from bertscope_service.metrics import METRIC_NAMES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.suffix in {".yaml", ".yml", ".json"})
HISTOGRAM_SUFFIX = re.compile(r"_(bucket|sum|count)$")


def load(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else list(yaml.safe_load_all(text))


DASHBOARD = load(DEPLOY / "grafana/dashboards/bertscope.json")
PANELS = DASHBOARD["panels"]
GRAPHS = [panel for panel in PANELS if panel["type"] != "row"]
(ALERTS,) = load(DEPLOY / "prometheus/alerts.yml")
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
(COMPOSE,) = load(DEPLOY / "compose.yaml")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
FINAL_STAGE = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[-1]


def instructions(name: str) -> list[str]:
    """The arguments of every `name` instruction of the final stage."""
    return re.findall(rf"^{name}\s+(.+)$", FINAL_STAGE, flags=re.MULTILINE)


def queries() -> Iterator[str]:
    """Every piece of PromQL in the dashboard and the alerts."""
    for panel in GRAPHS:
        yield from (target["expr"] for target in panel["targets"])
    yield from (variable["query"] for variable in DASHBOARD["templating"]["list"])
    yield from (rule["expr"] for rule in RULES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_file_parses(path: Path) -> None:
    assert load(path)


def test_every_metric_asked_for_exists() -> None:
    asked = {name for query in queries() for name in re.findall(r"\bbertscope_\w+", query)}
    unknown = {name for name in asked if {name, HISTOGRAM_SUFFIX.sub("", name)}.isdisjoint(METRIC_NAMES)}
    assert asked and not unknown


def test_every_metric_is_shown() -> None:
    shown = {HISTOGRAM_SUFFIX.sub("", name) for query in queries() for name in re.findall(r"\w+", query)}
    assert shown >= METRIC_NAMES


def test_panels_say_what_they_show() -> None:
    for panel in GRAPHS:
        assert panel["title"] and panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"] and all(target["expr"] for target in panel["targets"]), panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)), panel["title"]


def test_panels_have_ids_and_titles_of_their_own() -> None:
    for field in ("id", "title"):
        values = [panel[field] for panel in PANELS]
        assert len(values) == len(set(values))


def test_panels_do_not_overlap() -> None:
    places = {panel["title"]: panel["gridPos"] for panel in PANELS}
    for title, place in places.items():
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24, title
    for (first, a), (second, b) in combinations(places.items(), 2):
        apart_across = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        apart_down = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert apart_across or apart_down, f"{first!r} overlaps {second!r}"


def test_alerts_say_how_urgent_they_are_and_what_happened() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule["alert"]
        assert rule["for"] and rule["annotations"]["summary"] and rule["annotations"]["description"], rule["alert"]


def test_the_deploy_page_lists_every_alert() -> None:
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(Bertscope\w+)` \|", page, flags=re.MULTILINE)) == {rule["alert"] for rule in RULES}


def test_dashboard_finds_its_data_source() -> None:
    (provisioned,) = load(DEPLOY / "grafana/provisioning/datasources/prometheus.yaml")
    (source,) = provisioned["datasources"]
    (variable,) = (entry for entry in DASHBOARD["templating"]["list"] if entry["type"] == "datasource")
    assert variable["current"]["value"] == source["uid"]
    assert source["url"] == "http://prometheus:9090"


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
    assert command == ["bertscope", "health", "--target", f"127.0.0.1:{instructions('EXPOSE')[0].split()[0]}"]


def test_image_starts_the_command_and_keeps_models_in_a_volume() -> None:
    assert [json.loads(text) for text in instructions("ENTRYPOINT")] == [["bertscope"]]
    assert [json.loads(text)[0] for text in instructions("CMD")] == ["serve"]
    assert [json.loads(text) for text in instructions("VOLUME")] == [["/models"]]
    assert re.search(r"\bHF_HOME=/models/", FINAL_STAGE)
    assert re.search(r"\bBERTSCOPE_CACHE_FOLDER=/models/", FINAL_STAGE)


def test_image_is_built_only_from_files_that_reach_the_builder() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source for sources in re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE) for source in sources.split()
    }
    mounted = {source.split("/")[0] for source in re.findall(r"type=bind,source=([^,\s]+)", DOCKERFILE)}
    assert copied and copied | mounted <= allowed
    assert all((ROOT / name).exists() for name in allowed)
