"""Takes the layers of a transformers model apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from bertscope_service.encoders.decomposition import (
    FrozenNorm,
    HeadStream,
    LayerParts,
    LayerStream,
    Part,
    activation_factor,
    contexts_at,
)
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.gating import LayerRun, gated_weights
from bertscope_service.encoders.paths import Receiver
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.architectures.attention import gated_attention
from bertscope_service.encoders.torch.frozen import Frozen, refusal_of
from bertscope_service.encoders.torch.packing import PackedLinear

if TYPE_CHECKING:
    from bertscope_service.encoders.torch.encoder import TorchEncoder


class TorchDecomposition:
    """The `Decomposition` of a `TorchEncoder`. Attention runs inside the model's own layers, which pass on their values."""

    def __init__(self, encoder: TorchEncoder) -> None:
        self._encoder = encoder
        self._architecture = encoder.architecture

    def refusal(self, part: Part) -> str | None:
        if part is Part.CONTRIBUTIONS and self._architecture.beside_heads is not None:
            name, other = self._encoder.shape.architecture, self._architecture.beside_heads
            return f"layers of {name} models add {other} to their heads; sweep heads"
        if part is Part.NORMALISATION and self._architecture.norm is None:
            return f"{self._encoder.shape.architecture} models don't normalise x + attention(x); ask for layer_norms or rollout"
        layers = range(self._encoder.shape.layers)
        if part is Part.END and any(self._architecture.norm_at_end(layer) is None for layer in layers):
            return f"layers of this {self._encoder.shape.architecture} model don't end by normalising a sum; ask for alti"
        if part is Part.RERUN and self._encoder.precision not in ("fp32", "weight_only"):
            return f"the effect of one token drowns in the rounding of {self._encoder.precision}; load it in fp32"
        if part is Part.STREAM and (why := self._no_stream()):
            return why
        if part is Part.LAST and self._last_norm is None:
            name = self._encoder.shape.architecture
            return f"layers of this {name} model end without a layer normalisation; read states as they are"
        return None

    def take_apart(self, state: State, edits: BatchEdits | None) -> LayerParts:
        encoder, layer, before = self._encoder, state.layer, state.hidden
        run = encoder.layer_run(state, edits)
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
        weights = gated_weights(maps.pop(), run)
        return LayerParts(layer, heads, state.lengths, state.valid, weights, values.pop(), run.constant, before)

    def projection(self, layer: int) -> torch.Tensor:
        heads, size = self._encoder.shape.heads_of(layer), self._architecture.head_size
        weight = weight_of(self._architecture.output_projection(layer), len(heads) * size, self._encoder.device)
        by_head: torch.Tensor = weight.float().T.unflatten(0, (len(heads), size))
        return by_head

    def normalisation(self, parts: LayerParts) -> tuple[FrozenNorm, torch.Tensor]:
        norm = self._architecture.norm_after_heads(parts.layer)
        summed = self._architecture.output_projection(parts.layer)(parts.contexts()) + parts.before
        return FrozenNorm.of(norm.weight, norm.bias, norm.eps, summed), norm(summed)

    def normalisation_at_end(self, layer: int, attended: torch.Tensor) -> FrozenNorm:
        norm: Any = self._architecture.norm_at_end(layer)
        summed = attended + self._architecture.feed_forward(layer, attended)
        return FrozenNorm.of(norm.weight, norm.bias, norm.eps, summed)

    def finish(self, layer: int, contexts: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        architecture, whole = self._architecture, before.expand(len(contexts), *before.shape)
        if architecture.in_parts:
            return architecture.finish(layer, contexts, whole)
        by_head = contexts.unflatten(2, (-1, architecture.head_size))
        output: torch.Tensor = architecture.run_layer(layer, whole, None, LayerRun(given=by_head))
        return output

    def _no_stream(self) -> str | None:
        if not self._architecture.in_stream:
            return (
                f"layers of {self._encoder.shape.architecture} models are no sum of heads and a feed-forward block; sweep heads"
            )
        if self._encoder.precision not in ("fp32", "weight_only"):
            return f"the parts of a sum drown in the rounding of {self._encoder.precision}; load it in fp32"
        return None

    def stream(self, parts: LayerParts, positions: torch.Tensor) -> LayerStream:
        architecture, layer = self._architecture, parts.layer
        before = parts.before[torch.arange(len(positions), dtype=torch.int64, device=positions.device), positions].float()
        output, contexts = architecture.output_projection(layer), contexts_at(parts, positions)
        attended = before + output(contexts.flatten(1)[:, None])[:, 0]
        norm = None if architecture.norm is None else architecture.norm_after_heads(layer)
        read = attended if norm is None else norm(attended)
        feed_forward = architecture.feed_forward(layer, read[:, None])[:, 0]
        return LayerStream(
            torch.einsum("nhs,hsd->nhd", contexts.float(), self.projection(layer)) if parts.heads else before[:, None][:, :0],
            output.bias,
            _frozen(norm, attended),
            feed_forward.float(),
            _frozen(architecture.norm_at_end(layer), read + feed_forward),
        )

    def masked_lm_head(self, hidden: torch.Tensor, ids: torch.Tensor) -> HeadStream:
        dense, activation, norm, decoder = self._architecture.head_modules()
        read = dense(hidden)
        no_input = torch.zeros_like(hidden[:1])
        bias = dense(no_input)[0]
        weight = weight_of(decoder, norm.weight.shape[0], self._encoder.device)
        vocabulary_bias = self._architecture.decoder_bias()
        biases = ids.new_zeros(ids.shape, dtype=torch.float32) if vocabulary_bias is None else vocabulary_bias[ids].float()
        frozen = FrozenNorm.of(norm.weight, norm.bias, norm.eps, activation(read))
        factor = activation_factor(read, activation)
        return HeadStream(lambda terms: dense(terms) - bias, bias, factor, frozen, weight[ids].float(), biases)

    @property
    def paths_refusal(self) -> str | None:
        architecture, layers = self._architecture, range(self._encoder.shape.layers)
        name, precision = self._encoder.shape.architecture, self._encoder.precision
        whole = architecture.in_parts and architecture.in_stream and architecture.norm is not None
        if not whole or any(architecture.norm_at_end(layer) is None for layer in layers):
            return (
                f"layers of {name} models are not built as BERT's; measure sites, or load a BERT, RoBERTa, DistilBERT or ALBERT"
            )
        if precision not in ("fp32", "tf32", "weight_only"):
            return f"the effect of one path drowns in the rounding of {precision}; load it in fp32"
        return None

    def normalised(self, layer: int, summed: torch.Tensor, *, after_heads: bool) -> torch.Tensor:
        norm: Any = self._architecture.norm_after_heads(layer) if after_heads else self._architecture.norm_at_end(layer)
        found: torch.Tensor = norm(summed)
        return found

    def received(self, receiver: Receiver, layer: int, read: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        if receiver is Receiver.FEED_FORWARD:
            return self._architecture.feed_forward(layer, read)
        heads = self._encoder.shape.heads
        parts = zip((Receiver.QUERY, Receiver.KEY, Receiver.VALUE), self._architecture.projections(layer), strict=True)
        projected = (projection(read if part is receiver else before) for part, projection in parts)
        query, key, value = (
            one.unflatten(2, (-1, self._architecture.head_size)).transpose(1, 2).expand(len(read), -1, -1, -1)
            for one in projected
        )
        own = gated_attention(query, key, value, None, run=LayerRun())
        kept = list(self._encoder.shape.heads_of(layer))
        whole = own.new_zeros((*own.shape[:2], heads, own.shape[3]))
        whole[:, :, kept] = own
        return whole.flatten(2)

    @property
    def frozen_refusal(self) -> str | None:
        return refusal_of(self._architecture.model.config)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        with self._encoder.in_padded_rows(), Frozen():
            yield

    @property
    def _last_norm(self) -> torch.nn.Module | None:
        """The normalisation behind the last layer, or at its end."""
        behind: torch.nn.Module | None = self._architecture.norm_behind
        return self._architecture.norm_at_end(self._encoder.shape.layers - 1) if behind is None else behind

    def normalise_last(self, hidden: torch.Tensor) -> torch.Tensor:
        norm = self._last_norm
        if norm is None:
            raise ValueError("the model has no last normalisation")
        normalised: torch.Tensor = norm(hidden)
        return normalised


def _frozen(norm: Any, read: torch.Tensor) -> FrozenNorm | None:
    return None if norm is None else FrozenNorm.of(norm.weight, norm.bias, norm.eps, read)


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
