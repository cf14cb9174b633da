"""Models of a given shape with random weights: what can be learned of speed and size needs no training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers.initialization import no_init_weights

from bertscope_service.encoders.torch_architectures import ARCHITECTURES
from bertscope_service.encoders.torch_attention import NAME
from bertscope_service.encoders.torch_encoder import DTYPES, TorchEncoder
from bertscope_service.encoders.torch_packing import can_pack, pack_linears

SPREAD = 0.02
"""Weights lie between minus and plus this, as those of BERT do for the most part: then nothing overflows, in any precision."""

SCALES = ("LayerNorm", "NoNorm")
"""Classes of modules whose weights multiply whole vectors, and are 1."""


def random_model(name: str, settings: Mapping[str, object]) -> Any:
    """A masked-LM of transformers, on the CPU in float32. `name` is a `model_type`, `settings` are those of its config that
    differ from the default. The same arguments give the same weights; 110 million take a second."""
    kind = ARCHITECTURES[name].masked_lm
    with no_init_weights():
        model = kind._from_config(kind.config_class(**settings), attn_implementation=NAME, dtype=torch.float32)
    model.tie_weights()
    fill(model)
    return model.eval()


def fill(module: torch.nn.Module) -> None:
    """Give every parameter random values, and no gradient."""
    module.requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for values in module.parameters():
        values.uniform_(-SPREAD, SPREAD, generator=generator)
    for part in module.modules():
        if type(part).__name__ in SCALES:
            part.get_parameter("weight").fill_(1.0)


def random_encoder(name: str, settings: Mapping[str, object], *, device: torch.device, precision: str) -> TorchEncoder:
    """The encoder of such a model, as TorchEncoder.load makes it of a checkpoint. Raises torch.OutOfMemoryError."""
    kind = ARCHITECTURES[name]
    model = random_model(name, settings).to(DTYPES[precision]).to(device)
    encoder = TorchEncoder(kind(model), name, device, precision, has_head=True)
    if device.type == "cpu" and can_pack(encoder.dtype):
        pack_linears(model, kind.reads_weights)
    return encoder
