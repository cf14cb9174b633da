"""What is installed on which platform, as the lock and the Makefile say it; nothing is installed."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from tests.support.patience import granted

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SERVICE = tomllib.loads((ROOT / "service/pyproject.toml").read_text(encoding="utf-8"))
DEPENDENCIES = SERVICE["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
LOCKED = {package["name"] for package in tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]}

PLATFORMS = {
    ("linux", "x86_64"): "onnxruntime-gpu",
    ("linux", "aarch64"): "onnxruntime",
    ("darwin", "arm64"): "onnxruntime",
    ("win32", "AMD64"): "onnxruntime-gpu",
}


@pytest.mark.parametrize(("platform", "runtime"), PLATFORMS.items(), ids="-".join)
def test_each_platform_has_one_onnx_runtime_and_is_locked_for(platform: tuple[str, str], runtime: str) -> None:
    system, machine = platform
    here = {"sys_platform": system, "platform_machine": machine}
    runtimes = [need for need in map(Requirement, DEPENDENCIES) if need.name.startswith("onnxruntime")]
    assert [need.name for need in runtimes if need.marker is None or need.marker.evaluate(here)] == [runtime]
    assert sum(Marker(one).evaluate(here) for one in PROJECT["tool"]["uv"]["required-environments"]) == 1
    assert runtime in LOCKED
    needs_curand = [need for need in map(Requirement, DEPENDENCIES) if need.name == "nvidia-curand"]
    assert [need.marker is not None and need.marker.evaluate(here) for need in needs_curand] == [
        platform == ("linux", "x86_64")
    ]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("variable", "installed"),
    [("CPU=1", "torch --torch-backend cpu"), ("TORCH=/some/torch-2.11.0.whl", "/some/torch-2.11.0.whl")],
)
def test_a_pytorch_of_ones_own_is_installed_first_and_nothing_of_cuda_after_it(variable: str, installed: str) -> None:
    said = steps(variable)
    first, then = said.index(f"/bin/python {installed}"), said.index("sync --quiet")
    assert first < then
    left_out = {name for name in LOCKED if re.match(r"(nvidia|cuda)-|torch$|triton$", name)}
    assert {"torch", "triton", "nvidia-cudnn-cu13"} <= left_out
    assert set(re.findall(r"--no-install-package (\S+)", said)) == left_out
    assert "--inexact" in said  # else the packages that it needs were removed


def steps(*variables: str) -> str:
    """The commands that would make the environment, on one line each."""
    command = ["make", "--dry-run", "--always-make", ".venv/.ready", *variables]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=granted(60), check=True).stdout
