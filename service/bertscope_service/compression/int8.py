"""Stores weights as 8-bit integers, for the torch runtime."""

from __future__ import annotations

from typing import Any

import torch

from bertscope_service.checkpoints.steps import Applied, Int8, grown
from bertscope_service.encoders.torch.quantization import (
    INT8,
    IntegerMatrix,
    Quantization,
    quantizable,
    stored_weights,
    write_quantization,
)


def quantize_int8(model: Any, config: Any) -> tuple[dict[str, torch.Tensor], Applied]:
    """Returns the weights of a model to store, and sets a config accordingly.

    Linear layers and embeddings become 8 bits with a float32 scale for each output or row, the rest float32. Tied weights are
    stored once. As in Q8BERT (Zafrir et al. 2019), but symmetric for each row, and without training. The model stays as it is.
    """
    matrices, weights = quantizable(model), dict[str, torch.Tensor]()
    before = 0
    for name, tensor in stored_weights(model).items():
        before += tensor.numel() * tensor.element_size()
        if name in matrices:
            matrix = IntegerMatrix.of(tensor)
            weights |= {name: matrix.values, f"{name}_scale": matrix.scales}
        else:
            weights[name] = tensor.float()
    write_quantization(config, Quantization(INT8))
    after = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    description = (
        f"stored {len(matrices)} matrices in 8-bit integers with a scale for each row; activations follow as they come"
    )
    numbers = {"matrices": len(matrices), "bits": 8, "bytes_before": before, "bytes_after": after}
    return weights, Applied(Int8.name, description + grown(before, after), numbers)
