"""What a checkpoint folder must hold, and what is said when it does not."""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest
import torch
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.errors import FailedPrecondition
from safetensors.torch import load_file, save_file

from tests.support.tiny import ARCHITECTURES


@pytest.fixture(params=ARCHITECTURES)
def copy(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path], tmp_path: Path) -> tuple[str, Path]:
    """An architecture, and a copy of its checkpoint that may be spoilt."""
    return request.param, Path(copytree(checkpoint(request.param), tmp_path / "copy"))


def load(architecture: str, folder: Path) -> TorchEncoder:
    return load_encoder(folder, architecture, device=torch.device("cpu"), precision="fp32")


def refusal(architecture: str, folder: Path, reason: str = "SOURCE_UNREADABLE") -> FailedPrecondition:
    with pytest.raises(FailedPrecondition) as caught:
        load(architecture, folder)
    assert caught.value.reason == reason
    assert caught.value.metadata["source"] == str(folder)
    assert str(folder) in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def test_incomplete_head_is_no_head(copy: tuple[str, Path]) -> None:
    architecture, folder = copy
    heads = ("cls.", "lm_head.", "vocab_", "predictions.", "generator_predictions.", "head.")

    def drop(weights: dict[str, torch.Tensor]) -> None:
        del weights[next(name for name in sorted(weights) if name.startswith(heads) and "orm" in name)]

    edit_weights(folder, drop)
    assert not load(architecture, folder).capabilities.masked_lm


@pytest.mark.slow
@pytest.mark.every_architecture
@pytest.mark.parametrize("copy", ["bert", "albert", "distilbert", "modernbert"], indirect=True)
def test_more_layers_in_the_config_than_in_the_weights_are_refused(copy: tuple[str, Path]) -> None:
    """ALBERT's layers share their weights: there the extra ones exist."""
    architecture, folder = copy
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    layers = "n_layers" if architecture == "distilbert" else "num_hidden_layers"
    config[layers] += 1
    if "layer_types" in config:
        config["layer_types"].append("full_attention")
    path.write_text(json.dumps(config), encoding="utf-8")
    if architecture == "albert":
        assert load(architecture, folder).shape.layers == config[layers]
    else:
        refusal(architecture, folder)
