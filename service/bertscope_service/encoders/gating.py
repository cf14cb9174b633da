"""Applies gates to the heads of a layer, in any runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.base import ContextWatcher, Encoder, MapWatcher, Shape
from bertscope_service.encoders.edits import BatchEdits, Edits
from bertscope_service.encoders.site_edits import BlockedAttention, place_sites
from bertscope_service.encoders.sites import Site
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays
from bertscope_service.encoders.unpadded import Layout

_CHANGES, _ENTERING = attrgetter("changes"), attrgetter("entering")


class MapMemory:
    """Memory for the maps of one layer after another, float32, on the CPU. The system gives large tensors new pages each time,
    which takes longer than to compute the maps."""

    def __init__(self) -> None:
        self._kept = torch.empty(0, dtype=torch.float32, device="cpu")

    def take(self, shape: Sequence[int]) -> torch.Tensor:
        """Returns a tensor with any content, which the next call overwrites."""
        size = math.prod(shape)
        if self._kept.numel() < size:
            self._kept = torch.empty(size, dtype=torch.float32, device="cpu")
        return self._kept[:size].view(tuple(shape))


@dataclass(slots=True)
class LayerRun:
    """The attention of one layer for a batch.

    keep: [rows, heads], None if all gates are open here. uniform: likewise, None if no gate is uniform. constant: [rows, heads,
    head_size], added to the context; None if no row has one. average: [rows, 1, length, 1], 1/L at real tokens and 0 at
    padding, to take the mean of V with; set if `uniform` is. on_maps, on_context: receive the maps and the contexts; if
    `on_maps` is None, maps are never built. exact: whether contexts must be bitwise independent of the texts that share the
    batch; see `architectures.exact_attention`. on_values: receives the values V. given: contexts to return instead of computing
    attention, [rows, length, heads, head_size]; PyTorch alone takes them. memory: for maps that nobody keeps; None if somebody
    does. layout: how tokens lie without padding, None for padded rows; nobody watches such a layer. on_heads: changes gated
    contexts, [rows, length, heads, head_size]. blocked: the attention weights that are 0. heads: the remaining heads of a layer
    that lost some, int64.
    """

    keep: torch.Tensor | None = None
    uniform: torch.Tensor | None = None
    constant: torch.Tensor | None = None
    average: torch.Tensor | None = None
    on_maps: MapWatcher | None = None
    on_context: ContextWatcher | None = None
    exact: bool = False
    on_values: ContextWatcher | None = None
    given: torch.Tensor | None = None
    memory: MapMemory | None = None
    layout: Layout | None = None
    on_heads: Callable[[torch.Tensor], torch.Tensor] | None = None
    blocked: BlockedAttention | None = None
    heads: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        layer: int,
        edits: BatchEdits | None,
        watch: Mapping[int, MapWatcher] | None,
        taps: Mapping[int, ContextWatcher] | None,
    ) -> LayerRun:
        """Returns the run of a layer with these gates and watchers; the caller sets `average`."""
        run = cls(on_maps=(watch or {}).get(layer), on_context=(taps or {}).get(layer))
        if edits is not None and layer in edits.layers:
            run.keep, run.constant = edits.keep[:, layer], edits.constant.get(layer)
            if layer in edits.uniform_layers:
                run.uniform = edits.uniform[:, layer]
        if edits is not None and edits.sites is not None:
            run.blocked, place = edits.sites.blocked.get(layer), (Site.HEAD_OUTPUT, layer)
            if place in edits.sites.places:
                run.on_heads = partial(edits.sites.apply, place)
        return run

    def gate(self, context: torch.Tensor, mean: torch.Tensor | None) -> torch.Tensor:
        """Returns contexts [rows, heads, n, head_size] after the gates and other changes. mean: of V, [rows, heads, 1,
        head_size], for `uniform`."""
        if self.keep is not None:
            context = context * self.keep[:, :, None, None]
            if self.uniform is not None and mean is not None:
                context = context + mean * self.uniform[:, :, None, None]
            if self.constant is not None:
                context = context + self.constant[:, :, None]
        return context if self.on_heads is None else self.on_heads(context.transpose(1, 2)).transpose(1, 2)

    def block(self, maps: torch.Tensor) -> torch.Tensor:
        """Returns the attention maps of `blocked.rows` without what is blocked; the weights of a query add up to 1 again, or
        are 0. maps: of these rows, [n, heads, length, length]."""
        if self.blocked is None:
            return maps
        left = maps * self.blocked.allowed(self.heads, maps.shape[-1])
        return left / left.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)

    def without_pruned(self, kept: torch.Tensor, heads: int) -> LayerRun:
        """Returns the run for the remaining heads of a layer, int64 [kept], of `heads`; watchers get zeros for the removed
        ones."""

        def chosen(values: torch.Tensor | None) -> torch.Tensor | None:
            return None if values is None else values.index_select(1, kept)

        def show(watcher: Callable[[torch.Tensor], None], seen: torch.Tensor) -> None:
            whole = seen.new_zeros((len(seen), heads, *seen.shape[2:]))
            watcher(whole.index_copy_(1, kept, seen))

        on_maps, on_context = (watcher and partial(show, watcher) for watcher in (self.on_maps, self.on_context))
        change = self.on_heads

        def changed(contexts: torch.Tensor) -> torch.Tensor:
            whole = contexts.new_zeros((*contexts.shape[:2], heads, contexts.shape[3])).index_copy(2, kept, contexts)
            return contexts if change is None else change(whole).index_select(2, kept)

        return replace(
            self,
            keep=chosen(self.keep),
            uniform=chosen(self.uniform),
            constant=chosen(self.constant),
            on_maps=on_maps,
            on_context=on_context,
            on_heads=None if change is None else changed,
            heads=kept,
        )

    def pass_zeros(self, rows: int, length: int, head_size: int, device: torch.device) -> None:
        """Passes zeros to watchers of a layer without heads: its attention is never computed."""
        for watcher, size in ((self.on_maps, length), (self.on_context, head_size)):
            if watcher is not None:
                watcher(torch.zeros((rows, 0, length, size), dtype=torch.float32, device=device))


def place_edits(
    edits: Sequence[Edits | None], shape: Shape, device: torch.device, dtype: torch.dtype = torch.float32
) -> BatchEdits | None:
    """Returns the edits of a batch on the device, gates in the model's number format, or None if no row has any."""
    if not any(edits):
        return None
    changes, entering = ([() if one is None else of(one) for one in edits] for of in (_CHANGES, _ENTERING))
    sites = place_sites(changes, entering, shape.heads, device)
    sizes = (len(edits), shape.layers, shape.heads)
    keep, uniform = np.ones(sizes, dtype=np.float32), np.zeros(sizes, dtype=np.float32)
    constant: dict[int, NDArray[np.float32]] = {}
    for row, gate in enumerate(edits):
        if gate is None:
            continue
        keep[row], uniform[row] = gate.keep, gate.uniform
        for layer, values in gate.constant.items():
            constant.setdefault(layer, np.zeros((len(edits), *values.shape), dtype=np.float32))[row] = values
    uniform_layers = frozenset(np.flatnonzero((uniform != 0).any(axis=(0, 2))).tolist())
    layers = frozenset(np.flatnonzero((keep != 1).any(axis=(0, 2))).tolist()) | uniform_layers | constant.keys()
    tensors = (torch.from_numpy(array).to(dtype) for array in (keep, uniform, *constant.values()))
    kept, uniform_gates, *constants = place_arrays(device, *tensors)
    return BatchEdits(kept, uniform_gates, layers, uniform_layers, dict(zip(constant, constants, strict=True)), sites)


def enter(state: State, edits: BatchEdits, *, kept: bool) -> None:
    """Changes a state that is about to run: a new one as the changes before layer 0 say, a kept one as those of `entering`."""
    sites = edits.sites
    if sites is None:
        return
    if not kept and (Site.STATE, 0) in sites.places:
        sites.untouched.append(state.hidden)
        state.hidden = sites.apply_to_states(0, state.hidden)
    for change in sites.entering if kept else ():
        state.hidden = change.apply(state.hidden[:, :, None])[:, :, 0]
        state.context = None


def untouched(rows: int, encoder: Encoder) -> BatchEdits:
    """Returns edits of a batch that change nothing."""
    shape = (rows, encoder.shape.layers, encoder.shape.heads)
    keep = torch.ones(shape, dtype=encoder.dtype, device=encoder.device)
    return BatchEdits(keep, torch.zeros_like(keep), frozenset(), frozenset())


def beside_untouched(state: State, edits: BatchEdits) -> tuple[State, BatchEdits]:
    """Returns a batch with all rows, and then all rows again, untouched, and its edits; see `State.twice`."""
    both = state.twice()
    if state.layer == 0 and edits.sites is not None and edits.sites.untouched:
        both.hidden = torch.cat((state.hidden, edits.sites.untouched[0]))
    return both, BatchEdits(
        torch.cat((edits.keep, torch.ones_like(edits.keep))),
        torch.cat((edits.uniform, torch.zeros_like(edits.uniform))),
        edits.layers,
        edits.uniform_layers,
        {layer: torch.cat((of, torch.zeros_like(of))) for layer, of in edits.constant.items()},
        edits.sites,
    )


def pick(tensor: torch.Tensor, only: torch.Tensor | None) -> torch.Tensor:
    """Returns [rows, length, ...] at some positions of each row, [rows, n, ...]; all of them if `only` is None."""
    return tensor if only is None else tensor[torch.arange(len(tensor), dtype=torch.int64, device=tensor.device)[:, None], only]


def gated_weights(maps: torch.Tensor, run: LayerRun) -> torch.Tensor:
    """Returns keep * A + uniform / L, zeros at padding, of maps A [rows, heads, length, length]; A itself without gates."""
    if run.keep is None:
        return maps
    gated = maps * run.keep.float()[:, :, None, None]
    if run.uniform is None or run.average is None:
        return gated
    return gated.add_(run.uniform.float()[:, :, None, None] * run.average.float().transpose(2, 3))
