"""Takes the layers of exported graphs apart."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import torch

from bertscope_service.encoders.base import FLOAT32
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
from bertscope_service.encoders.gating import gated_weights
from bertscope_service.encoders.onnx.parts import Parts
from bertscope_service.encoders.onnx.streams import NormValues, declare, find_head, find_streams, find_values, normalised_in
from bertscope_service.encoders.onnx.values import ANALYSIS, FAST, GATED, HIDDEN, LAST, VALID, at
from bertscope_service.encoders.state import State, to_device

if TYPE_CHECKING:
    from bertscope_service.encoders.onnx.encoder import OnnxEncoder


class OnnxDecomposition:
    """The `Decomposition` of an `OnnxEncoder`."""

    def __init__(self, encoder: OnnxEncoder, parts: Parts, head_size: int, weights: Path) -> None:
        """`weights`: the folder that graphs refer to."""
        # The encoder keeps this object: with a reference back, its memory would be freed at the next garbage collection only.
        self._encoder: OnnxEncoder = weakref.proxy(encoder)
        self._parts = parts
        self._head_size = head_size
        self._weights = weights
        self._projections: dict[int, torch.Tensor] = {}
        self._biases: dict[int, torch.Tensor] = {}
        self._constants: dict[str, torch.Tensor] = {}
        graph = parts.graph(ANALYSIS).graph
        layers = [layer for layer in range(encoder.shape.layers) if encoder.shape.heads_of(layer)]
        self.named = find_values(graph, layers)
        self._before_last = normalised_in(graph, at(HIDDEN, encoder.shape.layers))
        own = {layer: one.summed for layer, one in self.named.items() if one.adds_input}
        self.streams = find_streams(graph, own, encoder.shape.layers)
        fast = parts.graph(FAST).graph
        self._head = find_head(fast) if encoder.capabilities.masked_lm else None
        if self._head is not None:
            declare(fast, {self._head.dense, self._head.norm.read})
        # A graph can be cut only at values whose type it declares.
        names = {name for one in self.named.values() for name in (one.values, one.projected, one.summed)}
        norms = [one.norm for one in self.named.values()]
        norms += [norm for one in self.streams.values() for norm in (one.first, one.second)]
        names |= {name for norm in norms if norm is not None for name in (norm.read, norm.written)}
        declare(graph, names | ({self._before_last} if self._before_last else set()))

    @property
    def bytes(self) -> int:
        """The memory of the copies of weights made so far."""
        return sum(tensor.nbytes for tensor in (*self._projections.values(), *self._biases.values(), *self._constants.values()))

    def refusal(self, part: Part) -> str | None:
        encoder, layers = self._encoder, range(self._encoder.shape.layers)
        these = f"layers of this {encoder.shape.architecture} model"
        if part is Part.LAST:
            return None if self._before_last else f"{these} end without a layer normalisation; read states as they are"
        with_heads = [layer for layer in layers if encoder.shape.heads_of(layer)]
        if encoder.precision not in ("fp32", "weight_only"):
            remedy = "load it in fp32" if encoder.precision in FLOAT32 else "load the model that it was made from"
            return f"it rounds to {encoder.precision} inside its graph; {remedy}"
        if part is Part.STREAM and (self._head is None or any(layer not in self.streams for layer in layers)):
            return "its graph is no sum of heads and feed-forward blocks, or has other weights; load it with runtime torch"
        if any(layer not in self.named for layer in with_heads):
            return "its graph is of a form in which layers can't be taken apart; load it with runtime torch"
        if part is Part.NORMALISATION and any(layer not in self.named or self.named[layer].norm is None for layer in layers):
            return f"{these} don't normalise x + attention(x); ask for layer_norms or rollout"
        if part is Part.END and any(layer not in self.streams or self.streams[layer].second is None for layer in layers):
            return f"{these} don't end by normalising a sum; ask for alti"
        return None

    def take_apart(self, state: State, edits: BatchEdits | None) -> LayerParts:
        encoder, layer, before = self._encoder, state.layer, state.hidden
        heads, (rows, length) = encoder.shape.heads_of(layer), before.shape[:2]
        maps = [torch.zeros((rows, 0, length, length), dtype=torch.float32, device=before.device)]
        values = [before.new_zeros((rows, 0, length, self._head_size))]
        run = encoder.layer_run(state, edits, None, None)
        if run.uniform is not None:
            run.average = state.average
        if heads:
            run.on_maps, run.on_values = maps.append, values.append
        encoder.run_layer(state, run, None, self.named[layer].values if heads else "")
        weights = gated_weights(maps[-1], run)
        return LayerParts(layer, heads, state.lengths, state.valid, weights, values[-1], run.constant, before)

    def projection(self, layer: int) -> torch.Tensor:
        if layer not in self._projections:
            self._projections[layer] = self._project_each(layer)
        return self._projections[layer]

    def _project_each(self, layer: int) -> torch.Tensor:
        """Returns what the output projection makes of each of its inputs, however its weight is stored."""
        heads, size = len(self._encoder.shape.heads_of(layer)), self._encoder.shape.heads * self._head_size
        inputs = heads * self._head_size
        if not inputs:
            return torch.zeros((0, self._head_size, size), dtype=torch.float32, device=self._encoder.device)
        one_by_one = torch.zeros((inputs + 1, inputs), dtype=torch.float32, device=self._encoder.device)
        one_by_one.diagonal().fill_(1.0)
        contexts = one_by_one.unflatten(1, (heads, self._head_size))[None]
        projected = self.named[layer].projected
        session = self._parts.get(ANALYSIS, (at(GATED, layer),), (projected,))
        (found,) = session.run({at(GATED, layer): contexts}, {projected: (1, inputs + 1, size)})[projected]
        # The last input is zero: what is left is the bias.
        self._biases[layer] = found[-1]
        by_head: torch.Tensor = (found[:-1] - found[-1]).unflatten(0, (heads, self._head_size))
        return by_head

    def normalisation(self, parts: LayerParts) -> tuple[FrozenNorm, torch.Tensor]:
        layer, shape = parts.layer, tuple(parts.before.shape)
        norm = _known(self.named[layer].norm)
        session = self._parts.get(ANALYSIS, (at(GATED, layer), at(HIDDEN, layer)), (norm.read, norm.written))
        feeds = {at(GATED, layer): self._by_head(parts.contexts()), at(HIDDEN, layer): parts.before}
        found = session.run(feeds, {norm.read: shape, norm.written: shape})
        return self._frozen(norm, found[norm.read]), found[norm.written]

    def normalisation_at_end(self, layer: int, attended: torch.Tensor) -> FrozenNorm:
        first, norm = _known(self.streams[layer].first), _known(self.streams[layer].second)
        session = self._parts.get(ANALYSIS, (first.written,), (norm.read,))
        summed = session.run({first.written: attended}, {norm.read: tuple(attended.shape)})[norm.read]
        return self._frozen(norm, summed)

    def _constant(self, name: str) -> torch.Tensor:
        """Returns a small weight, and keeps it."""
        if name not in self._constants:
            self._constants[name] = to_device(self._read(name), self._encoder.device)
        return self._constants[name]

    def _read(self, name: str) -> torch.Tensor:
        both = (one for graph in (ANALYSIS, FAST) for one in self._parts.graph(graph).graph.initializer)
        tensor = next(one for one in both if one.name == name)
        return torch.from_numpy(onnx.numpy_helper.to_array(tensor, base_dir=str(self._weights)).astype("float32"))

    def finish(self, layer: int, contexts: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        after, whole = at(HIDDEN, layer + 1), before.expand(len(contexts), *before.shape)
        feeds, inputs = {at(HIDDEN, layer): whole}, (at(GATED, layer), at(HIDDEN, layer))
        if self._encoder.shape.heads_of(layer):
            feeds[at(GATED, layer)] = self._by_head(contexts)
        else:
            inputs = (at(HIDDEN, layer), VALID)
            feeds[VALID] = torch.ones(whole.shape[:2], dtype=torch.bool, device=whole.device)
        return self._parts.get(ANALYSIS, inputs, (after,)).run(feeds, {after: whole.shape})[after]

    def stream(self, parts: LayerParts, positions: torch.Tensor) -> LayerStream:
        layer, named = parts.layer, self.streams[parts.layer]
        rows = torch.arange(len(positions), dtype=torch.int64, device=positions.device)
        contexts, before = contexts_at(parts, positions), parts.before[rows, positions]
        after = named.second.read if named.second is not None else at(HIDDEN, layer + 1)
        read = named.first.written if named.first is not None else named.summed
        wanted = tuple(dict.fromkeys((named.summed, read, after)))
        session = self._parts.get(ANALYSIS, (at(GATED, layer), at(HIDDEN, layer)), wanted)
        feeds = {at(GATED, layer): contexts[None], at(HIDDEN, layer): before[None]}
        found = {name: value[0] for name, value in session.run(feeds, dict.fromkeys(wanted, (1, *before.shape))).items()}
        return LayerStream(
            torch.einsum("nhs,hsd->nhd", contexts, self.projection(layer)),
            self._biases[layer],
            self._frozen(named.first, found[named.summed]) if named.first else None,
            found[after] - found[read],
            self._frozen(named.second, found[after]) if named.second else None,
        )

    def _frozen(self, norm: NormValues, read: torch.Tensor) -> FrozenNorm:
        shift = self._constant(norm.shift) if norm.shift else None
        return FrozenNorm.of(self._constant(norm.scale), shift, norm.epsilon, read)

    def masked_lm_head(self, hidden: torch.Tensor, ids: torch.Tensor) -> HeadStream:
        head = self._head
        if head is None:
            raise ValueError("the masked-LM head can't be taken apart")
        size = self._constant(head.norm.scale).shape[0]

        def dense(states: torch.Tensor) -> torch.Tensor:
            session = self._parts.get(FAST, (LAST,), (head.dense,))
            return session.run({LAST: states[None]}, {head.dense: (len(states), size)})[head.dense]

        def activation(read: torch.Tensor) -> torch.Tensor:
            session = self._parts.get(FAST, (head.dense,), (head.norm.read,))
            return session.run({head.dense: read}, {head.norm.read: tuple(read.shape)})[head.norm.read]

        read, bias = dense(hidden), dense(torch.zeros_like(hidden[:1]))[0]
        weight = self._read(head.weight)
        rows = (weight if head.transposed else weight.T)[ids.cpu()].to(hidden.device)
        biases = self._read(head.bias)[ids.cpu()].to(hidden.device) if head.bias else torch.zeros_like(rows[..., 0])
        frozen = self._frozen(head.norm, activation(read))

        def linear(terms: torch.Tensor) -> torch.Tensor:
            return dense(terms) - bias

        return HeadStream(linear, bias, activation_factor(read, activation), frozen, rows, biases)

    def normalise_last(self, hidden: torch.Tensor) -> torch.Tensor:
        if self._before_last is None:
            raise ValueError("the model has no last normalisation")
        after = at(HIDDEN, self._encoder.shape.layers)
        session = self._parts.get(ANALYSIS, (self._before_last,), (after,))
        return session.run({self._before_last: hidden[None]}, {after: (1, *hidden.shape)})[after][0]

    def _by_head(self, contexts: torch.Tensor) -> torch.Tensor:
        by_head: torch.Tensor = contexts.unflatten(2, (-1, self._head_size))
        return by_head


def _known(norm: NormValues | None) -> NormValues:
    """Returns a normalisation of a layer. Raises ValueError for a layer without it."""
    if norm is None:
        raise ValueError("the layer has no such normalisation")
    return norm
