"""Which checkpoints are classifiers, what their labels are, and what becomes of heads that are not all there."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.errors import FailedPrecondition
from safetensors.torch import load_file

from tests.support.edited_files import edit_tensors, say
from tests.support.reference import Subject, assert_equal
from tests.support.tiny import ARCHITECTURES, write_checkpoint

CLASSIFIER = ("classifier.weight", "classifier.bias")
HEADS = ("classifier", "pre_classifier", "head.")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def classifier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """A classifier of three labels that nobody may change."""
    folder = tmp_path_factory.mktemp("classifiers") / request.param
    return Subject(request.param, write_checkpoint(request.param, folder, labels=3))


@pytest.fixture
def copy(classifier: Subject, tmp_path: Path) -> Path:
    return Path(copytree(classifier.folder, tmp_path / "copy"))


def load(architecture: str, folder: Path) -> TorchEncoder:
    return load_encoder(folder, architecture, device=torch.device("cpu"), precision="fp32", pack=False)


def drop(folder: Path, chosen: Callable[[str], bool]) -> None:
    def change(weights: dict[str, torch.Tensor]) -> None:
        dropped = list(filter(chosen, weights))
        assert dropped
        for name in dropped:
            del weights[name]

    edit_tensors(folder / "model.safetensors", change)


@torch.inference_mode()
def run_layers(encoder: TorchEncoder, sequence: Any) -> list[torch.Tensor]:
    state = encoder.begin([sequence])
    encoder.advance(state, encoder.shape.layers)
    return [state.hidden]


@pytest.mark.parametrize("ids", [["9", "10", "2", "1", "0", "3", "4", "5", "6", "7", "8"], ["1", "0"]])
def test_labels_are_ordered_by_number_not_by_text(tmp_path: Path, ids: list[str]) -> None:
    folder = write_checkpoint("bert", tmp_path, labels=2)
    edit_tensors(
        folder / "model.safetensors",
        lambda weights: weights.update(
            {name: weights[name][:1].repeat(len(ids), *[1] * (weights[name].ndim - 1)) for name in CLASSIFIER}
        ),
    )
    say(folder / "config.json", id2label={number: f"label {number}" for number in ids}, label2id={})
    assert load("bert", folder).shape.labels == tuple(f"label {number}" for number in range(len(ids)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({"problem_type": "multi_label_classification"}, ()),
        ({"id2label": {"0": 0, "1": 1, "2": 2}, "label2id": {}}, ("0", "1", "2")),
        ({"architectures": None}, ()),
    ],
)
def test_only_a_choice_of_one_has_labels(tmp_path: Path, changes: dict[str, Any], labels: tuple[str, ...]) -> None:
    folder = write_checkpoint("bert", tmp_path, labels=3)
    say(folder / "config.json", **changes)
    found = load("bert", folder)
    assert found.shape.labels == labels
    assert (found.capabilities.classification, found.capabilities.masked_lm) == (bool(labels), False)


@pytest.mark.slow
def test_an_incomplete_classifier_is_none(classifier: Subject, copy: Path) -> None:
    """It would answer at random; attention is there all the same."""
    last = [name for name in sorted(load_file(copy / "model.safetensors")) if name.startswith(HEADS)][-1]
    drop(copy, lambda name: name == last)
    found = load(classifier.architecture, copy)
    assert (found.shape.labels, found.capabilities.masked_lm) == ((), False)
    sequence = classifier.sequences[1]
    assert_equal(run_layers(found, sequence), run_layers(classifier.encoder, sequence))


@pytest.mark.parametrize("architecture", ["bert", "albert", "modernbert"])
def test_an_incomplete_masked_lm_head_is_none(checkpoint: Callable[[str], Path], tmp_path: Path, architecture: str) -> None:
    folder = Path(copytree(checkpoint(architecture), tmp_path / "copy"))
    heads = ("cls.", "predictions.", "head.")
    norm = next(name for name in sorted(load_file(folder / "model.safetensors")) if name.startswith(heads) and "orm" in name)
    drop(folder, lambda name: name == norm)
    assert not load(architecture, folder).capabilities.masked_lm


@pytest.mark.parametrize("changes", [{"id2label": ["a", "b"]}, {"id2label": {"x": "a"}}, {"num_hidden_layers": "four"}])
def test_a_config_that_can_not_be_understood(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = write_checkpoint("bert", tmp_path, labels=2)
    say(folder / "config.json", **changes)
    with pytest.raises(FailedPrecondition) as caught:
        load("bert", folder)
    assert caught.value.reason == "SOURCE_UNREADABLE"
    assert str(folder) in caught.value.message
    assert "\n" not in caught.value.message
