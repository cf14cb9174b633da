"""Checkpoints whose graphs are kept: what was checked before their export is not checked again, and no model is made for it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from bertscope_service.checkpoints import check
from bertscope_service.checkpoints.sources import Source, inspect
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models.export_cache import exported
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.models.loading import read_model
from bertscope_service.models.runtime_choice import RuntimeChoice, RuntimeChoices, RuntimeTimes
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, choice_key, recognise

from tests.support.edited_files import edit
from tests.support.patience import granted

ONNX, AUTO, TORCH = (RuntimeRequest(runtime, "fp32", torch.device("cpu")) for runtime in ("onnx", "auto", "torch"))


def digest(source: Source) -> str:
    return source.digest(lambda _: None)


@pytest.fixture
def copy(checkpoint: Callable[[str], Path], export_cache: Path, tmp_path: Path) -> Path:
    """A copy of a checkpoint whose graphs are kept."""
    source = inspect(checkpoint("bert"))
    exported(source, digest(source), export_cache)
    return Path(shutil.copytree(source.folder, tmp_path / "copy"))


def test_recognised(copy: Path, export_cache: Path) -> None:
    source, settings, reported = inspect(copy), RuntimeSettings(export_cache), list[object]()
    recognised = partial(recognise, source, settings=settings, report=reported.append)
    assert recognised(TORCH) == ("", None)
    assert not reported  # the weights were not read
    found, manifest = recognised(ONNX)
    assert found == digest(source)
    assert manifest is not None
    assert manifest.source_digest == found
    assert recognise(source, ONNX, RuntimeSettings(copy / "no cache"), lambda _: None) == ("", None)


def test_another_config_or_other_weights(copy: Path, export_cache: Path) -> None:
    settings, config = RuntimeSettings(export_cache), copy / "config.json"
    weights = copy / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    source = inspect(copy)
    assert recognise(source, ONNX, settings, lambda _: None) == (digest(source), None)
    weights.write_bytes(whole)
    config.write_text(config.read_text() + "\n")
    assert recognise(source, ONNX, settings, lambda _: None) == ("", None)


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_the_choice_of_a_runtime(copy: Path, export_cache: Path, tmp_path: Path, runtime: str) -> None:
    settings = RuntimeSettings(export_cache, choices=RuntimeChoices(tmp_path))
    source = inspect(copy)
    assert recognise(source, AUTO, settings, lambda _: None) == (digest(source), None)  # both will be measured
    times = tuple(RuntimeTimes(name, 1.0, 1.0) for name in ("torch", "onnx"))
    chosen = RuntimeChoice(runtime, runtime, times=times, speedup=1.0, low=1.0, high=1.0, rounds=1, measured_time=1.0)
    assert settings.choices is not None
    settings.choices.remember(choice_key(source, digest(source), AUTO, settings), chosen)
    found, manifest = recognise(source, AUTO, settings, lambda _: None)
    assert (found, manifest is not None) == (digest(source), runtime == "onnx")


def test_the_tokenizer_is_checked(copy: Path, export_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("it was checked before the export")

    monkeypatch.setattr(check, "check_weights", fail)
    spec = LoadSpec("bert", str(copy), "cpu", "fp32", runtime="onnx")
    settings = RuntimeSettings(export_cache, threads=1)
    assert read_model(spec, lambda _: None, runtimes=settings).encoder.runtime == "onnx"
    edit(copy / "tokenizer.json", lambda written: written["added_tokens"][0].update(id=10**6))
    with pytest.raises(FailedPrecondition, match=r"added_tokens"):
        read_model(spec, lambda _: None, runtimes=settings)


IMPORTS = """
import sys
from pathlib import Path
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.models.loading import read_model
from bertscope_service.models.runtimes import RuntimeSettings
from bertscope_service.rpc.services import servicer_classes

servicer_classes()
spec = LoadSpec("bert", sys.argv[1], "cpu", "fp32", runtime="onnx")
read_model(spec, lambda _: None, runtimes=RuntimeSettings(Path(sys.argv[2]), threads=1))
print(*({"scipy", "sympy", "torch._dynamo", "transformers.activations", "transformers.modeling_utils"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_no_code_of_models_is_imported(copy: Path, export_cache: Path) -> None:
    """It would take half the time of a server's start."""
    command = [sys.executable, "-c", IMPORTS, str(copy), str(export_cache)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=granted(60), check=True)
    assert done.stdout.strip() == ""
