"""What people host passes: the published configs of every architecture, with the shapes and names that their files have."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.checkpoints.check import check_source
from bertscope_service.checkpoints.config import check_config
from bertscope_service.checkpoints.sources import locate
from bertscope_service.checkpoints.weights import check_weights
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.weight_headers import read_headers

PUBLISHED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("published_configs.json").read_text(encoding="utf-8")
)
"""config.json as published. The weights of all these are far too large for a test, so files have their headers alone."""


def write_header(file: Path, shapes: Mapping[str, tuple[int, ...]], dtype: str = "F32", width: int = 4) -> None:
    """A safetensors file of these tensors, all holes: it takes no room on the disk."""
    header, place = dict[str, Any](), 0
    for name, shape in shapes.items():
        size = torch.Size(shape).numel() * width
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    written = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    with file.open("wb") as opened:
        opened.write(struct.pack("<Q", len(written)) + written)
        opened.truncate(8 + len(written) + place)


@pytest.mark.parametrize(
    ("headless", "old_names"), [(False, False), (True, True)], ids=["whole", "headless, TensorFlow's names"]
)
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_checkpoint_passes(tmp_path: Path, name: str, headless: bool, old_names: bool) -> None:
    written = PUBLISHED[name]
    kind = ARCHITECTURES[written["model_type"]]
    model_class = kind.class_of(Head.SEQUENCE if "id2label" in written else Head.MASKED_LM)
    with torch.device("meta"):
        model = model_class(model_class.config_class(**written))
    shapes = {key: tuple(values.shape) for key, values in (model.base_model if headless else model).state_dict().items()}
    if old_names:
        shapes = {
            key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): shape
            for key, shape in shapes.items()
        }
    shapes |= {"cls.seq_relationship.weight": (2, 768), "bert.embeddings.position_ids": (1, 512)}
    write_header(tmp_path / "model.safetensors", shapes)
    (tmp_path / "config.json").write_text(json.dumps(written))
    path = tmp_path / "config.json"
    config = check_config(path, written, written["model_type"])
    used = check_weights(path, config, written["model_type"], read_headers([tmp_path / "model.safetensors"]))
    assert len(used) == len(shapes) - 2


def test_the_embedded_model_passes() -> None:
    assert len(check_source(locate("bertscope-mini", "", lambda _: None))) > 100
