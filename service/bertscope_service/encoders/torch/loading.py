"""Reads a checkpoint folder as an encoder."""

from __future__ import annotations

from pathlib import Path

import torch

from bertscope_service.encoders.device_memory import out_of_memory
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.checkpoints import read_checkpoint
from bertscope_service.encoders.torch.encoder import DTYPES, TorchEncoder
from bertscope_service.encoders.torch.int8 import settle_precision, use_integers
from bertscope_service.encoders.torch.packing import can_pack, pack_linears
from bertscope_service.errors import FailedPrecondition


def load_encoder(folder: Path, name: str, *, device: torch.device, precision: str, pack: bool = True) -> TorchEncoder:
    """Reads a checkpoint folder: config.json and safetensors, never pickle, never code.

    `name` is the `model_type` of its config. `pack` packs the linear layers on a CPU. Weights that are stored in few bits
    determine the precision; `precision` must be "fp32" then, or theirs. Raises FailedPrecondition if weights are missing,
    broken, or don't fit the config, or if the device's memory does not hold them, Unsupported for a precision that stored
    integers can't use.
    """
    kind, checkpoint = ARCHITECTURES[name], read_checkpoint(folder, name, DTYPES[precision])
    precision = settle_precision(checkpoint.quantization, precision)
    try:
        checkpoint.model.to(device)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        message = f"{folder} does not fit into the memory of {device} now; unload a model, or use another device or precision"
        raise FailedPrecondition(message, "DEVICE_MEMORY", source=folder) from error
    encoder = TorchEncoder(
        kind(checkpoint.model),
        name,
        device,
        precision,
        checkpoint.capabilities,
        checkpoint.labels,
        pruned=checkpoint.pruned,
        kept_shares=checkpoint.kept_shares,
    )
    use_integers(checkpoint.model, checkpoint.integers, kind.reads_weights)
    if pack and device.type == "cpu" and can_pack(encoder.dtype):
        pack_linears(checkpoint.model, kind.reads_weights)
    return encoder
