"""Shows the activations of feed-forward blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from bertscope_service.encoders.base import ActivationWatcher
from bertscope_service.encoders.torch.architectures.architecture import Architecture


@contextmanager
def watching_activations(architecture: Architecture, layer: int, watcher: ActivationWatcher) -> Iterator[None]:
    """Passes on what the second matrix of a layer's feed-forward block reads. That layer alone may run meanwhile: ALBERT's
    layers are one module."""

    def show(_: torch.nn.Module, read: tuple[Any, ...]) -> None:
        watcher(architecture.activations(read[0]))

    hook = architecture.second_matrix(layer).register_forward_pre_hook(show)
    try:
        yield
    finally:
        hook.remove()
