"""Takes the layers of a transformers model apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from bertscope_service.encoders.base import BatchGates
from bertscope_service.encoders.decomposition import LayerParts, Normalisation, Part, RowParts
from bertscope_service.encoders.gating import LayerRun, gated_weights
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.packing import PackedLinear

if TYPE_CHECKING:
    from bertscope_service.encoders.torch.encoder import TorchEncoder


class TorchDecomposition:
    """The `Decomposition` of a `TorchEncoder`. Attention runs inside the model's own layers, which pass on their values."""

    def __init__(self, encoder: TorchEncoder) -> None:
        self._encoder = encoder
        self._architecture = encoder.architecture

    def refusal(self, part: Part) -> str | None:
        if part is Part.NORMALISATION and self._architecture.norm is None:
            return f"{self._encoder.shape.architecture} models don't normalise x + attention(x); ask for layer norms"
        if part is Part.RERUN and self._encoder.precision not in ("fp32", "weight_only"):
            return f"the effect of one token drowns in the rounding of {self._encoder.precision}; load it in fp32"
        if part is Part.LAST and self._last_norm is None:
            name = self._encoder.shape.architecture
            return f"layers of this {name} model end without a layer normalisation; read states as they are"
        return None

    def take_apart(self, state: State, gates: BatchGates | None) -> LayerParts:
        encoder, layer, before = self._encoder, state.layer, state.hidden
        run = encoder.layer_run(state, gates)
        maps, values = list[torch.Tensor](), list[torch.Tensor]()
        run.on_maps, run.on_values = maps.append, values.append
        state.hidden = self._architecture.run_layer(layer, before, state.valid, run)
        state.context = None
        state.layer += 1
        heads = encoder.shape.heads_of(layer)
        if not heads:
            rows, length = before.shape[:2]
            maps = [torch.zeros((rows, 0, length, length), dtype=torch.float32, device=encoder.device)]
            values = [before.new_zeros((rows, 0, length, self._architecture.head_size))]
        return LayerParts(layer, heads, state.lengths, gated_weights(maps.pop(), run), values.pop(), run.constant, before)

    def projection(self, layer: int) -> torch.Tensor:
        heads, size = self._encoder.shape.heads_of(layer), self._architecture.head_size
        weight = weight_of(self._architecture.output_projection(layer), len(heads) * size, self._encoder.device)
        by_head: torch.Tensor = weight.float().T.unflatten(0, (len(heads), size))
        return by_head

    def normalisation(self, layer: int, row: RowParts) -> Normalisation:
        norm = self._architecture.norm_after_heads(layer)
        attended = self._architecture.output_projection(layer)(row.contexts()[None])[0] + row.before
        variance = attended.float().var(dim=-1, correction=0)
        return Normalisation(norm.weight.float(), torch.sqrt(variance + norm.eps))

    def finish(self, layer: int, contexts: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        architecture, whole = self._architecture, before.expand(len(contexts), *before.shape)
        if architecture.in_parts:
            return architecture.finish(layer, contexts, whole)
        by_head = contexts.unflatten(2, (-1, architecture.head_size))
        output: torch.Tensor = architecture.run_layer(layer, whole, None, LayerRun(given=by_head))
        return output

    @property
    def _last_norm(self) -> torch.nn.LayerNorm | None:
        return self._architecture.norm_at_end(self._encoder.shape.layers - 1)

    def normalise_last(self, hidden: torch.Tensor) -> torch.Tensor:
        norm = self._last_norm
        if norm is None:
            raise ValueError("the model has no last normalisation")
        normalised: torch.Tensor = norm(hidden)
        return normalised


def weight_of(linear: Any, inputs: int, device: torch.device) -> torch.Tensor:
    """Returns the weight of a linear layer with so many inputs, [out, in], however it is stored: packed, or as integers."""
    if isinstance(linear, PackedLinear):
        dense: torch.Tensor = linear.packed.to_dense()
        return dense
    weight = getattr(linear, "weight", None)
    if isinstance(weight, torch.Tensor):
        return weight
    bias = linear.bias
    one_by_one = torch.eye(inputs, dtype=torch.float32, device=device)
    products: torch.Tensor = linear(one_by_one)
    return (products if bias is None else products - bias).T
