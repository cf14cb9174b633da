"""The contents of the three wheels, built from their sdists: the client is small and knows neither torch nor the workbench; the
workbench brings the page; the service brings its model and knows no workbench."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from bertscope import __version__

from tests.support.patience import granted
from tools.release.distributions import Distribution
from tools.release.environments import Environment, locked_versions
from tools.release.trials import try_client, try_workbench

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CLIENT_NEEDS = {"grpcio", "grpcio-status", "googleapis-common-protos", "protobuf", "numpy"}


def hatchling(source: Path, target: str, folder: Path) -> Path:
    """Build one thing; the file that came of it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder / target)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=granted(100))
    (file,) = (file for file in (folder / target).iterdir() if not file.name.startswith("."))
    return file


def build(source: Path, folder: Path) -> zipfile.ZipFile:
    """The wheel that comes of the sdist, which knows nothing of the repository around it."""
    with tarfile.open(hatchling(source, "sdist", folder)) as sdist:
        sdist.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.name.startswith("bertscope"))
    return zipfile.ZipFile(hatchling(unpacked, "wheel", folder))


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def requirements(wheel: zipfile.ZipFile) -> set[str]:
    """Names of what a wheel needs, without its extras."""
    needs = metadata(wheel).get_all("Requires-Dist") or []
    return {need.split(">")[0].split("=")[0].split(";")[0].strip() for need in needs if "extra ==" not in need}


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT, tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def service_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT / "service", tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="module")
def workbench_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT / "workbench", tmp_path_factory.mktemp("workbench"))


def test_client_wheel_is_thin(client_wheel: zipfile.ZipFile) -> None:
    assert requirements(client_wheel) == CLIENT_NEEDS
    assert {name.split("/")[0].partition("-")[0] for name in client_wheel.namelist()} == {"bertscope"}
    assert sum(entry.compress_size for entry in client_wheel.infolist()) < 800_000
    generated = {"bertscope/v1/cloze_pb2.pyi", "bertscope/inference/open_inference_pb2.pyi"}
    assert {"bertscope/py.typed", *generated} <= set(client_wheel.namelist())


def test_client_alone_works_in_an_empty_environment_and_so_does_the_workbench(
    client_wheel: zipfile.ZipFile, workbench_wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    """Tries on this Python what `make release` tries on each."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    client, workbench = (
        Distribution(name, place, place)
        for name, wheel in (("bertscope", client_wheel), ("bertscope-workbench", workbench_wheel))
        for place in [Path(shutil.copy(str(wheel.filename), wheels))]
    )
    constraints = locked_versions(tmp_path / "locked.txt")
    with Environment(tmp_path / "environment", Path(sys.executable), constraints) as environment:
        try:
            environment.install([client])
        except subprocess.CalledProcessError:
            pytest.skip("what the client needs can't be installed here")
        try_client(environment, client)
        environment.install([client, workbench])
        try_workbench(environment, workbench)


def test_workbench_wheel_brings_the_page_and_needs_no_service(workbench_wheel: zipfile.ZipFile) -> None:
    held = set(workbench_wheel.namelist())
    assert {name.split("/")[0].partition("-")[0] for name in held} == {"bertscope_workbench"}
    assert {"bertscope_workbench/py.typed", "bertscope_workbench/explore/static/index.html"} <= held
    assert {"bertscope", "typer", "rich", "matplotlib", "pandas"} <= requirements(workbench_wheel)
    assert not {"bertscope-service", "torch", "transformers"} & requirements(workbench_wheel)


def test_service_wheel_brings_the_embedded_model(service_wheel: zipfile.ZipFile) -> None:
    model = {name.rpartition("/")[2] for name in service_wheel.namelist() if "/embedded/bertscope-mini/" in name}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= model
    assert {"torch", "transformers", "onnxruntime-gpu", "onnxruntime", "bertscope"} <= requirements(service_wheel)
    assert not {"bertscope-workbench", "typer", "rich", "matplotlib"} & requirements(service_wheel)


@pytest.fixture(scope="module")
def wheels(
    client_wheel: zipfile.ZipFile, workbench_wheel: zipfile.ZipFile, service_wheel: zipfile.ZipFile
) -> list[zipfile.ZipFile]:
    return [client_wheel, workbench_wheel, service_wheel]


def test_all_have_one_version_and_need_the_client_of_it(wheels: list[zipfile.ZipFile]) -> None:
    assert {metadata(wheel)["Version"] for wheel in wheels} == {__version__}
    for wheel in wheels[1:]:
        assert f"bertscope=={__version__}" in (metadata(wheel).get_all("Requires-Dist") or [])


def test_all_bring_their_licence(wheels: list[zipfile.ZipFile]) -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    for wheel in wheels:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
        assert wheel.read(name) == licence
