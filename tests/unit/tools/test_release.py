"""How a release is listed and where it is tried. That it can be built and used, `make release` shows itself."""

import hashlib
import json
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import NoReturn

import pytest
from bertscope import __version__
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import tools.release.__main__ as making
from tools.release.checksums import write_checksums
from tools.release.distributions import Distribution
from tools.release.sbom import write_sbom

ROOT = Path(__file__).resolve().parents[3]
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
METADATA = """Metadata-Version: 2.4
Name: some-thing
Version: 4.5.6
License-Expression: Apache-2.0
Requires-Dist: numpy>=2.0
Requires-Dist: pandas>=2.2; extra == 'pandas'
"""


def test_checksums_hold_until_a_file_changes(tmp_path: Path) -> None:
    (tmp_path / "one.whl").write_bytes(b"one")
    (tmp_path / "two.tar.gz").write_bytes(b"two")
    sums = write_checksums(tmp_path)
    assert [line.split()[1] for line in sums.read_text().splitlines()] == ["one.whl", "two.tar.gz"]
    check = ["sha256sum", "--check", "--strict", sums.name]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "two.tar.gz").write_bytes(b"2")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


@pytest.mark.slow
def test_the_bill_of_materials_names_what_is_released(tmp_path: Path) -> None:
    wheel = tmp_path / "some_thing-4.5.6-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some_thing-4.5.6.dist-info/METADATA", METADATA)
        archive.writestr("some_thing/models/tiny/model.safetensors", b"weights")
    packages = tmp_path / "venv" / "lib" / f"python{THIS_PYTHON}" / "site-packages"
    venv.create(tmp_path / "venv", symlinks=True)
    for name in ("numpy", "pandas"):
        info = packages / f"{name}-2.3.dist-info" / "METADATA"
        info.parent.mkdir()
        info.write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 2.3\n")
    file = write_sbom(Distribution("some-thing", wheel, tmp_path / "no.tar.gz"), tmp_path / "venv" / "bin" / "python")
    found = json.loads(file.read_text(encoding="utf-8"))
    subject = found["metadata"]["component"]
    assert (file.name, subject["name"], subject["version"]) == ("some-thing-4.5.6.cdx.json", "some-thing", "4.5.6")
    assert {component["name"] for component in found["components"]} == {"numpy", "pandas", "tiny"}
    (model,) = (component for component in found["components"] if component["type"] == "machine-learning-model")
    assert model["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"weights").hexdigest()}]
    (needs,) = (entry["dependsOn"] for entry in found["dependencies"] if entry["ref"] == subject["bom-ref"])
    assert [need.partition("==")[0] for need in needs] == ["numpy", model["bom-ref"]]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read_text(encoding="utf-8")) is None
    assert str(tmp_path) not in file.read_text(encoding="utf-8")


def test_a_build_that_fails_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(folder: Path, constraints: Path) -> NoReturn:
        assert constraints.exists()
        raise subprocess.CalledProcessError(2, ["uv", "build"])

    work = tmp_path / "build" / "release"
    monkeypatch.setattr(making, "WORK", work)
    monkeypatch.setattr(making, "DIST", tmp_path / "dist")
    monkeypatch.setattr(making, "build", build)
    assert making.main([THIS_PYTHON]) == 1
    assert capsys.readouterr().err == "no release: Command '['uv', 'build']' returned non-zero exit status 2.\n"
    assert not work.exists() and not (tmp_path / "dist").exists()


def test_images_bear_the_version() -> None:
    deployed = [file for file in (ROOT / "deploy").rglob("*.y*ml") if file.is_file()]
    named = r"(?:bertscope:|ARG VERSION=|newTag: [\"']?)(\d+\.\d+\.\d+)"
    files = [ROOT / "Dockerfile", *deployed, *(ROOT / "docs").glob("*.md")]
    versions = {version for file in files for version in re.findall(named, file.read_text(encoding="utf-8"))}
    assert versions == {__version__}


def test_the_changelog_tells_of_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    assert sections[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", section) for section in sections[1:])
    assert f"[{__version__}]" in {section.split()[0] for section in sections[1:]}
    kinds = set(re.findall(r"^### (.+)$", changelog, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
