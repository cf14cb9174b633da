"""How gates act on the heads of a layer, whatever runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.base import BatchGates, Gates, See, Shape, Tap


@dataclass(slots=True)
class LayerRun:
    """What one layer's attention has to do for a batch.

    keep: [rows, heads], None if no row's gate is anything but open here. uniform: likewise, None if no gate is uniform.
    constant: [rows, heads, head_size], added to the context; None if no row has one.
    average: [rows, 1, length, 1], 1/L at real tokens and 0 at padding, to take the mean of V with; set if `uniform` is.
    see, tap: receive the maps and the contexts; None if nobody watches, then maps are never built.
    """

    keep: torch.Tensor | None = None
    uniform: torch.Tensor | None = None
    constant: torch.Tensor | None = None
    average: torch.Tensor | None = None
    see: See | None = None
    tap: Tap | None = None

    @classmethod
    def of(
        cls, layer: int, gates: BatchGates | None, watch: Mapping[int, See] | None, taps: Mapping[int, Tap] | None
    ) -> LayerRun:
        """Of a layer with these gates and watchers; `average` is the caller's."""
        run = cls(see=(watch or {}).get(layer), tap=(taps or {}).get(layer))
        if gates is not None and layer in gates.layers:
            run.keep, run.constant = gates.keep[:, layer], gates.constant.get(layer)
            if layer in gates.uniform_layers:
                run.uniform = gates.uniform[:, layer]
        return run

    def gate(self, context: torch.Tensor, mean: torch.Tensor | None) -> torch.Tensor:
        """Contexts [rows, heads, n, head_size] as the gates leave them. mean: of V, [rows, heads, 1, head_size], for
        `uniform`."""
        if self.keep is None:
            return context
        gated = context * self.keep[:, :, None, None]
        if self.uniform is not None and mean is not None:
            gated = gated + mean * self.uniform[:, :, None, None]
        return gated if self.constant is None else gated + self.constant[:, :, None]

    def without_pruned(self, kept: torch.Tensor, heads: int) -> LayerRun:
        """The same for the heads that are left of a layer, int64 [kept], of `heads`; whoever watches sees zeros for those that
        are gone."""

        def chosen(values: torch.Tensor | None) -> torch.Tensor | None:
            return None if values is None else values.index_select(1, kept)

        def show(watcher: Callable[[torch.Tensor], None], seen: torch.Tensor) -> None:
            whole = seen.new_zeros((len(seen), heads, *seen.shape[2:]))
            watcher(whole.index_copy_(1, kept, seen))

        see, tap = (watcher and partial(show, watcher) for watcher in (self.see, self.tap))
        return LayerRun(chosen(self.keep), chosen(self.uniform), chosen(self.constant), self.average, see, tap)

    def show_nothing(self, rows: int, length: int, head_size: int, device: torch.device) -> None:
        """Let those who watch a layer without heads see zeros: its attention is never computed."""
        for watcher, size in ((self.see, length), (self.tap, head_size)):
            if watcher is not None:
                watcher(torch.zeros((rows, 0, length, size), device=device))


def place_gates(
    gates: Sequence[Gates | None], shape: Shape, place: Callable[[NDArray[np.float32]], torch.Tensor]
) -> BatchGates | None:
    """The gates of a batch; `place` puts an array on the device in the model's number format. None if no row has any."""
    if not any(gates):
        return None
    sizes = (len(gates), shape.layers, shape.heads)
    keep, uniform = np.ones(sizes, dtype=np.float32), np.zeros(sizes, dtype=np.float32)
    constant: dict[int, NDArray[np.float32]] = {}
    for row, gate in enumerate(gates):
        if gate is None:
            continue
        keep[row], uniform[row] = gate.keep, gate.uniform
        for layer, values in gate.constant.items():
            constant.setdefault(layer, np.zeros((len(gates), *values.shape), dtype=np.float32))[row] = values
    uniform_layers = frozenset(np.flatnonzero((uniform != 0).any(axis=(0, 2))).tolist())
    layers = frozenset(np.flatnonzero((keep != 1).any(axis=(0, 2))).tolist()) | uniform_layers | constant.keys()
    return BatchGates(place(keep), place(uniform), layers, uniform_layers, {layer: place(of) for layer, of in constant.items()})


def pick(tensor: torch.Tensor, only: torch.Tensor | None) -> torch.Tensor:
    """[rows, length, ...] at some positions of each row, [rows, n, ...]; all of them if `only` is None."""
    return tensor if only is None else tensor[torch.arange(len(tensor), device=tensor.device)[:, None], only]
