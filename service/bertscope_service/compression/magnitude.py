"""Sets single weights to zero."""

from __future__ import annotations

import torch

from bertscope_service.checkpoints.steps import Applied, PruneMagnitude
from bertscope_service.compression.working_copy import WorkingCopy


def prune_magnitude(copy: WorkingCopy, step: PruneMagnitude) -> Applied:
    """Sets the smallest weights of every linear layer inside the encoder's layers to zero.

    It is the same share of each matrix, rounded down. Biases, norms, embeddings and convolutions over several tokens stay.
    """
    linears = {id(module): module for layer in copy.parts.layers for module in layer.modules()}.values()
    weights = [module.get_parameter("weight") for module in linears if is_linear(module)]
    total = sum(weight.numel() for weight in weights)
    for weight in weights:
        flat = weight.detach().view(-1)
        smallest = flat.abs().topk(int(step.share * flat.numel()), largest=False, sorted=False).indices
        flat[smallest] = 0
    zeros = sum(int((weight == 0).sum()) for weight in weights)
    words = (
        f"set {zeros / total:.1%} of the weights of {len(weights)} linear layers to zero; dense kernels gain nothing from it"
    )
    return Applied(step.name, words, {"weights": total, "zeros": zeros})


def is_linear(module: torch.nn.Module) -> bool:
    """Checks that a module is a linear layer; SqueezeBERT's are convolutions over single tokens."""
    return isinstance(module, torch.nn.Linear) or (isinstance(module, torch.nn.Conv1d) and module.kernel_size == (1,))
