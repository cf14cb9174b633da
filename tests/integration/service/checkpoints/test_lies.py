"""Every lie of a checkpoint is one clear error, before a model is built and whatever its numbers say."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bertscope_service.checkpoints.check import check_source, check_source_weights
from bertscope_service.checkpoints.sources import locate
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models import loading
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.models.loading import read_model
from bertscope_service.models.runtimes import RuntimeSettings
from safetensors.torch import load_file, save_file

from tests.support.edited_files import edit_tensors
from tests.support.lies import CLASSIFIERS, LIES, Lie
from tests.support.memory import peak
from tests.support.tiny import write_checkpoint

PEAK_BYTES = 200 * 1024 * 1024
"""Far more than a check takes, and far less than a model of the sizes that are named."""


def read(folder: Path, precision: str = "fp32") -> None:
    """Load a model from a folder."""
    read_model(LoadSpec("m", str(folder), "cpu", precision), lambda _: None, runtimes=RuntimeSettings(folder, threads=1))


def refusal(folder: Path, monkeypatch: pytest.MonkeyPatch, precision: str = "fp32") -> FailedPrecondition:
    """What loading says, which must build no model and take no memory to say it."""

    def build(*_: object, **__: object) -> None:
        raise AssertionError("a model was built")

    monkeypatch.setattr(loading, "read_candidates", build)
    before = peak()
    with pytest.raises(FailedPrecondition) as caught:
        read(folder, precision)
    assert peak() - before < PEAK_BYTES
    return caught.value


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_a_lie_is_one_clear_error(copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, lie: Lie) -> None:
    folder = copy(lie.architecture)
    lie.tell(folder)
    error = refusal(folder, monkeypatch)
    assert error.reason == lie.reason
    assert str(folder) in error.message
    assert lie.file in error.message
    assert all(word in error.message for word in lie.words), error.message
    assert "\n" not in error.message
    assert len(error.message) < 1000


@pytest.mark.parametrize("lie", CLASSIFIERS, ids=lambda lie: lie.words)
def test_labels_that_are_not_those_of_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Lie) -> None:
    folder = write_checkpoint("bert", tmp_path / "classifier", labels=3)
    lie.tell(folder)
    error = refusal(folder, monkeypatch)
    assert all(word in error.message for word in lie.words), error.message


@pytest.mark.slow
def test_weights_that_the_asked_precision_can_not_hold(copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy("bert")
    edit_tensors(folder / "model.safetensors", lambda weights: weights["bert.embeddings.LayerNorm.weight"][3].fill_(70_000.0))
    read(folder)
    read(folder, "bf16")
    error = refusal(folder, monkeypatch, "fp16")
    assert error.reason == "WEIGHTS_TOO_LARGE"
    assert "bert.embeddings.LayerNorm.weight is 70000.0; fp16 holds numbers up to 65504" in error.message


def shards(folder: Path, parts: int = 3) -> dict[str, str]:
    """Spread the weights of a folder over some files; the index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {name: f"model-{number % parts + 1:05}-of-{parts:05}.safetensors" for number, name in enumerate(sorted(tensors))}
    for file in set(places.values()):
        save_file({name: tensors[name] for name in tensors if places[name] == file}, folder / file, {"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return places


def test_shards_that_are_whole(copy: Callable[[str], Path]) -> None:
    folder = copy("bert")
    whole = check_source(locate(str(folder), "", lambda _: None))
    shards(folder)
    found = check_source(locate(str(folder), "", lambda _: None))
    assert [tensor.name for tensor in found] == [tensor.name for tensor in whole]
    check_source_weights(found, "fp32")
    read(folder)


def test_shards_that_are_not(copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy("bert")
    places = shards(folder)
    index = folder / "model.safetensors.index.json"
    name, file = next(iter(places.items()))
    other = next(place for place in places.values() if place != file)
    index.write_text(json.dumps({"weight_map": places | {name: other}}))
    assert f"weight_map['{name}'] is '{other}'" in refusal(folder, monkeypatch).message
    index.write_text(json.dumps({"weight_map": places}))
    twice = load_file(folder / other) | {name: load_file(folder / file)[name]}
    save_file(twice, folder / other, {"format": "pt"})
    assert f"{name} is in " in refusal(folder, monkeypatch).message
