"""Lies of graphs: of the manifest beside those that bertscope exported, and of the config beside those of other programs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bertscope_service.checkpoints.check import check_source
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Int8, RemoveHeads, WeightOnly
from bertscope_service.compression.compress import compress
from bertscope_service.encoders.base import Capabilities, Encoder
from bertscope_service.encoders.onnx.values import FAST, WEIGHTS
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models import loading
from bertscope_service.models.export_cache import exported
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.models.loading import read_model
from bertscope_service.models.runtimes import RuntimeSettings

from tests.support.edited_files import edit
from tests.support.lies import HUGE
from tests.support.memory import peak

PEAK_BYTES = 200 * 1024 * 1024


@pytest.fixture
def export(checkpoint: Callable[[str], Path], export_cache: Path, tmp_path: Path) -> Path:
    """A folder of graphs that may be changed."""
    source = inspect(checkpoint("bert"))
    return Path(shutil.copytree(exported(source, source.digest(lambda _: None), export_cache), tmp_path / "export"))


def refusal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FailedPrecondition:
    """What loading says, which must open no graph and take no memory to say it."""

    def build(*_: object, **__: object) -> None:
        raise AssertionError("a model was built")

    monkeypatch.setattr(loading, "read_candidates", build)
    peak()
    resting = peak()
    with pytest.raises(FailedPrecondition) as caught:
        read_model(
            LoadSpec("m", str(folder), "cpu", "fp32", runtime="onnx"),
            lambda _: None,
            runtimes=RuntimeSettings(folder, threads=1),
        )
    assert peak() - resting < PEAK_BYTES
    assert caught.value.reason in ("SOURCE_UNREADABLE", "WEIGHTS_NOT_FINITE")
    assert "\n" not in caught.value.message
    return caught.value


SHAPES: list[tuple[str, Any]] = [
    *(
        (key, value)
        for key in ("layers", "heads", "hidden_size", "vocabulary_size", "max_tokens")
        for value in (-1, HUGE, None)
    ),
    *(("layers", value) for value in (3, 5)),
    ("vocabulary_size", 1000),
    ("hidden_size", 64),
    ("parameters", -1),
    ("segments", HUGE),
    ("labels", 5),
    ("labels", ["a", "b"]),
    ("pruned", {"9": [0]}),
    ("pruned", {"0": [99]}),
    ("pruned", [1]),
]


OTHER_HEADS = ("classification", "token_classification", "question_answering", "next_sentence")
DETAILS: list[tuple[str, Any]] = [
    *((f"shape.{key}", value) for key, value in SHAPES),
    ("capabilities.masked_lm", False),
    *((f"capabilities.{name}", True) for name in OTHER_HEADS),
    ("capabilities", [True]),
]


@pytest.mark.parametrize(("place", "value"), DETAILS, ids=str)
def test_a_manifest_that_lies(export: Path, monkeypatch: pytest.MonkeyPatch, place: str, value: Any) -> None:
    """Of the shape of its graphs, or of heads that they have not."""

    def change(manifest: dict[str, Any]) -> None:
        *path, last = place.split(".")
        part = manifest["details"]
        for key in path:
            part = part[key]
        part[last] = value

    edit(export / "bertscope.json", change)
    error = refusal(export, monkeypatch)
    assert f"details.{place}" in error.message
    assert "bertscope.json" in error.message


def as_in_0_1_0(manifest: dict[str, Any], **changes: bool) -> None:
    """Manifests of that version name what a model can do among the dimensions of its shape, and its labels alone say whether it
    classifies."""
    del manifest["details"]["capabilities"]
    flags = {
        "has_masked_lm_head": True,
        "prunable": False,
        "differentiable": False,
        "observable": True,
        "hidden_states": True,
        "drops_tokens": False,
    }
    manifest["details"]["shape"].update(flags | changes)


def test_an_export_of_an_earlier_version_is_read(export: Path) -> None:
    def read() -> Encoder:
        spec = LoadSpec("m", str(export), "cpu", "fp32", runtime="onnx")
        return read_model(spec, lambda _: None, runtimes=RuntimeSettings(export, threads=1)).encoder

    now = read()
    edit(export / "bertscope.json", as_in_0_1_0)
    assert check_source(inspect(export))
    before = read()
    assert (before.shape, before.capabilities) == (now.shape, now.capabilities)
    assert before.capabilities == Capabilities(masked_lm=True)


def test_a_manifest_of_an_earlier_version_that_lies(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(export / "bertscope.json", lambda manifest: as_in_0_1_0(manifest, has_masked_lm_head=False))
    assert "details.shape.has_masked_lm_head" in refusal(export, monkeypatch).message


def test_a_weight_of_graphs_that_is_none(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = max(check_source(inspect(export)), key=lambda stored: stored.end - stored.begin)
    content = bytearray((export / WEIGHTS).read_bytes())
    content[tensor.begin : tensor.begin + 4] = np.float32(np.nan).tobytes()
    (export / WEIGHTS).write_bytes(content)
    error = refusal(export, monkeypatch)
    assert error.reason == "WEIGHTS_NOT_FINITE"
    assert tensor.name in error.message


@pytest.mark.parametrize(("name", "key", "value"), [("config.json", "num_hidden_layers", HUGE), ("tokenizer.json", "model", 5)])
def test_what_lies_beside_graphs(export: Path, monkeypatch: pytest.MonkeyPatch, name: str, key: str, value: Any) -> None:
    edit(export / name, lambda content: content.update({key: value}))
    assert name in refusal(export, monkeypatch).message


@pytest.mark.parametrize("key", ["num_hidden_layers", "vocab_size", "max_position_embeddings", "hidden_size"])
def test_a_config_beside_a_file_of_another_program(
    export: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str
) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(export / name, folder / name)
    shutil.copyfile(export / FAST, folder / "model.onnx")
    shutil.copyfile(export / WEIGHTS, folder / WEIGHTS)
    edit(folder / "config.json", lambda config: config.update({key: -HUGE}))
    error = refusal(folder, monkeypatch)
    assert f"{key} is {-HUGE}" in error.message


STEPS = {"int8": (Int8(),), "weight_only": (WeightOnly(3, 0),), "pruned": (RemoveHeads({0: (0, 1, 2, 3), 2: (1,)}),)}


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
@pytest.mark.parametrize("name", STEPS)
def test_what_was_compressed_passes_and_its_parts_must_fit(
    checkpoint: Callable[[str], Path], tmp_path: Path, architecture: str, name: str
) -> None:
    folder = tmp_path / "made"
    compress(inspect(checkpoint(architecture)), STEPS[name], folder, lambda _: None, "sha256:0")
    assert check_source(inspect(folder))
    edit(folder / "config.json", lambda config: {key: config[key] for key in config if not key.startswith("bertscope_")})
    with pytest.raises(FailedPrecondition, match=r"model\.safetensors"):
        check_source(inspect(folder))
