"""Makes models of a given shape with random weights: speed and size can be measured without training."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

from bertscope_service.encoders.base import Capabilities
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.building import give_memory, outline
from bertscope_service.encoders.torch.encoder import DTYPES, TorchEncoder
from bertscope_service.encoders.torch.packing import can_pack, pack_linears

SPREAD = 0.02
"""Weights lie between minus and plus this, as most of BERT's do: then nothing overflows, in any precision."""

SCALES = ("LayerNorm", "NoNorm")
"""Classes of modules whose weights multiply whole vectors, and are 1."""


def random_model(name: str, settings: Mapping[str, object]) -> Any:
    """Returns a masked-LM of transformers, on the CPU in float32. `name` is a `model_type`, `settings` are the values of its
    config that differ from the default. The same arguments give the same weights; 110 million take a second."""
    kind = ARCHITECTURES[name].class_of(Head.MASKED_LM)
    model = outline(kind, kind.config_class(**settings), torch.float32)
    model.tie_weights(recompute_mapping=False)
    give_memory(model, sys.maxsize)
    fill(model)
    return model


def fill(module: torch.nn.Module) -> None:
    """Gives every parameter random values, and no gradient."""
    module.requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for values in module.parameters():
        values.uniform_(-SPREAD, SPREAD, generator=generator)
    for part in module.modules():
        if type(part).__name__ in SCALES:
            part.get_parameter("weight").fill_(1.0)


def random_encoder(name: str, settings: Mapping[str, object], *, device: torch.device, precision: str) -> TorchEncoder:
    """Returns the encoder of such a model, as load_encoder makes it from a checkpoint. Raises torch.OutOfMemoryError."""
    kind = ARCHITECTURES[name]
    model = random_model(name, settings).to(DTYPES[precision]).to(device)
    encoder = TorchEncoder(kind(model), name, device, precision, Capabilities(masked_lm=True))
    if device.type == "cpu" and can_pack(encoder.dtype):
        pack_linears(model, kind.reads_weights)
    return encoder
