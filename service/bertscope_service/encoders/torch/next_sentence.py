"""Finds the next-sentence head of a pre-training checkpoint, and adds it to models (Devlin et al. 2019, section 3.1, task 2).

transformers' masked-LM classes leave the head out. It is added under the names that pre-training checkpoints have for it, so
that weights are read, counted, moved and saved as all others are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from bertscope_service.encoders.torch.architectures.architecture import SENTENCE_SCORES, Architecture
from bertscope_service.encoders.torch.weight_readers import read_tensors
from bertscope_service.encoders.weight_headers import Stored

CLASSES = 2
"""Scores of the head: "is next", "is not next"."""


def with_next_sentence_head(kind: Callable[[Any], Any], architecture: type[Architecture]) -> Callable[[Any], Any]:
    """Returns a function that makes a masked-LM of `kind` with the head."""

    def make(config: Any) -> Any:
        model = kind(config)
        for path, module in _parts(architecture, config).items():
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, module)
        return model

    return make


def holds_next_sentence_head(
    architecture: type[Architecture],
    config: Any,
    stored: Mapping[str, Stored],
    decoded: Mapping[str, torch.Tensor],
    dtype: torch.dtype,
) -> bool:
    """Returns whether a checkpoint holds the whole head, its pooler included, of this config's shapes, with numbers that are
    finite in a number format.

    `stored` are its tensors, and `decoded` all of them by their usual names if it is quantised. Raises ValueError and OSError
    as `read_tensors` does.
    """
    if architecture.pooler is None:
        return False
    with torch.device("meta"):
        parts = _parts(architecture, config)
    shapes = {f"{path}.{name}": values.shape for path, part in parts.items() for name, values in part.named_parameters()}
    found = decoded or dict(read_tensors({name: stored[name] for name in shapes if name in stored}))
    return all(name in found and _fits(found[name], shape, dtype) for name, shape in shapes.items())


def _fits(tensor: torch.Tensor, shape: torch.Size, dtype: torch.dtype) -> bool:
    return tensor.is_floating_point() and tensor.shape == shape and bool(tensor.to(dtype).isfinite().all())


def _parts(architecture: type[Architecture], config: Any) -> dict[str, torch.nn.Module]:
    """Returns new modules of the head by their paths in a model."""
    scores = torch.nn.Linear(config.hidden_size, CLASSES)
    return {f"{architecture.base}.pooler": architecture.make_pooler(config), SENTENCE_SCORES: scores}
