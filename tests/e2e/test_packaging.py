"""What the two wheels hold: the client is small and knows nothing of torch; the service brings its embedded model."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT_NEEDS = {"grpcio", "grpcio-status", "googleapis-common-protos", "protobuf", "numpy", "typer", "rich"}


def build(source: Path, folder: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=100)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


def requirements(wheel: zipfile.ZipFile) -> set[str]:
    """Names of what a wheel needs, without its extras."""
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    needs = Parser().parsestr(wheel.read(metadata).decode()).get_all("Requires-Dist") or []
    return {need.split(">")[0].split("=")[0].split(";")[0].strip() for need in needs if "extra ==" not in need}


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT, tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def service_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT / "service", tmp_path_factory.mktemp("service"))


def test_client_wheel_is_thin(client_wheel: zipfile.ZipFile) -> None:
    assert requirements(client_wheel) == CLIENT_NEEDS
    assert {name.split("/")[0].partition("-")[0] for name in client_wheel.namelist()} == {"bertscope"}
    assert sum(entry.compress_size for entry in client_wheel.infolist()) < 500_000
    generated = {"bertscope/v1/cloze_pb2.pyi", "bertscope/inference/open_inference_pb2.pyi"}
    assert {"bertscope/py.typed", *generated} <= set(client_wheel.namelist())


def test_service_wheel_brings_the_embedded_model(service_wheel: zipfile.ZipFile) -> None:
    model = {name.rpartition("/")[2] for name in service_wheel.namelist() if "/models/bertscope-mini/" in name}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= model
    assert {"torch", "transformers", "onnxruntime-gpu", "bertscope"} <= requirements(service_wheel)


def test_both_have_one_version(client_wheel: zipfile.ZipFile, service_wheel: zipfile.ZipFile) -> None:
    versions = set()
    for wheel in (client_wheel, service_wheel):
        (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        versions.add(Parser().parsestr(wheel.read(metadata).decode())["Version"])
    assert len(versions) == 1
