"""The deployment files agree with the service and with each other."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from bertscope_service.settings import Settings

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


def test_image_starts_the_command_and_keeps_models_in_a_volume() -> None:
    assert [json.loads(text) for text in instructions("ENTRYPOINT")] == [["bertscope-server"]]
    assert not instructions("CMD")
    assert [json.loads(text) for text in instructions("VOLUME")] == [["/models"]]
    assert re.search(r"\bHF_HOME=/models/", FINAL_STAGE)
    assert re.search(r"\bBERTSCOPE_CACHE_FOLDER=/models/", FINAL_STAGE)


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
