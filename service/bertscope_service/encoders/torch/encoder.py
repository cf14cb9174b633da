"""Runs a transformers model in steps, with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial

import torch

from bertscope_service.encoders.base import Capabilities, ContextWatcher, MapWatcher, Shape
from bertscope_service.encoders.edits import BatchEdits, Edits
from bertscope_service.encoders.gating import LayerRun, MapMemory, pick, place_edits
from bertscope_service.encoders.placement import place_rows
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.site_edits import SiteEdits
from bertscope_service.encoders.sites import Site
from bertscope_service.encoders.state import Context, KeptTokens, State, to_device
from bertscope_service.encoders.torch.activations import changing_sites
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.architectures.attention import gated_attention
from bertscope_service.encoders.torch.decomposition import TorchDecomposition
from bertscope_service.encoders.torch.entries import decoder_rows, predict_entries
from bertscope_service.encoders.torch.graph_rooms import RoomSize
from bertscope_service.encoders.torch.projections import project, run_narrow
from bertscope_service.encoders.torch.pruning import prunable
from bertscope_service.encoders.torch.quantization import INT8, QUANTIZED, WEIGHT_ONLY
from bertscope_service.encoders.torch.token_elimination import (
    all_tokens,
    choose,
    find,
    go_on,
    kept_counts,
    look_up,
    protect,
    received,
)
from bertscope_service.encoders.torch.unpadded_layers import UnpaddedLayers
from bertscope_service.encoders.torch.weights import nonzero_parameters, resident_bytes
from bertscope_service.encoders.unpadded import UnembeddedRows, UnpaddedStates, has_varlen

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    INT8: torch.float32,
    WEIGHT_ONLY: torch.float32,
}
"""The number format of hidden states in each precision."""


class TorchEncoder:
    """A checkpoint of one of `ARCHITECTURES`; the `Encoder` of the torch runtime."""

    runtime = "torch"

    def __init__(
        self,
        architecture: Architecture,
        name: str,
        device: torch.device,
        precision: str,
        heads: Capabilities,
        labels: tuple[str, ...] = (),
        *,
        pruned: Mapping[int, tuple[int, ...]] | None = None,
        kept_shares: tuple[float, ...] = (),
    ) -> None:
        """`heads` says which heads the model has, `labels` are the labels of a classification head, `pruned` the heads that
        the weights lack, `kept_shares` the share of a text's tokens that continues after each layer (empty: all)."""
        config, pruned = architecture.model.config, pruned or {}
        self.architecture = architecture
        self.device = device
        self.precision = precision
        self.dtype = DTYPES[precision]
        self.shape = Shape(
            architecture=name,
            layers=len(architecture.layers),
            heads=architecture.heads,
            hidden_size=config.hidden_size,
            vocabulary_size=config.vocab_size,
            max_tokens=architecture.max_tokens(),
            parameters=architecture.model.num_parameters(),
            labels=labels if heads.classification else (),
            pruned=pruned,
            segments=architecture.segments(),
            head_labels=labels if heads.token_classification or heads.multi_label else (),
        )
        self.capabilities = replace(
            heads,
            prunable=prunable(name) and precision not in QUANTIZED and not kept_shares,
            differentiable=precision != INT8 and not kept_shares,
            observable=not kept_shares,
            drops_tokens=bool(kept_shares),
            unpadded=device.type == "cuda" and architecture.unpads and precision != INT8 and not kept_shares,
        )
        architecture.kept = {layer: self.shape.heads_of(layer) for layer in pruned}
        # If inputs become integers, a last digit may change one of them, and the next layers amplify that.
        self._exact = precision == INT8
        self._unpadded_layers = UnpaddedLayers(architecture, has_varlen(device, self.dtype, architecture.head_size))
        self._in_padded_rows = False
        self._padding_id = int(config.pad_token_id or 0)
        self._kept_shares = kept_shares
        self._mask_id: int | None = getattr(config, "mask_token_id", None)

    @property
    def resident_bytes(self) -> int:
        return resident_bytes(self.architecture.model)

    def nonzero_parameters(self) -> int:
        model = self.architecture.model
        return nonzero_parameters(model, model.get_output_embeddings() if model.config.tie_word_embeddings else None)

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        if self.capabilities.unpadded:
            embed, unpadded = self.architecture.embed, self.architecture.embeds_unpadded
            return UnembeddedRows(sequences, self.device, self._padding_id, embed, unpadded=unpadded).state()
        ids, segments, lengths, valid = place_rows(sequences, self.device, self._padding_id)
        kept_tokens = all_tokens(ids, valid, lengths, self._mask_id) if self._kept_shares else None
        return State(self.architecture.embed(ids, segments, valid), lengths, valid, kept_tokens=kept_tokens)

    def place_edits(self, edits: Sequence[Edits | None]) -> BatchEdits | None:
        return place_edits(edits, self.shape, self.device, self.dtype)

    def advance(
        self,
        state: State,
        stop: int,
        edits: BatchEdits | None = None,
        watch: Mapping[int, MapWatcher] | None = None,
        *,
        taps: Mapping[int, ContextWatcher] | None = None,
        only: torch.Tensor | None = None,
    ) -> None:
        if state.kept_tokens is not None:
            if edits is not None or watch or taps:
                raise ValueError("a model that drops tokens takes neither gates nor watchers")
            if only is not None:
                state.kept_tokens = protect(state.kept_tokens, only)
        memory = MapMemory() if watch else None
        if edits is None and not watch and not taps and stop == self.shape.layers and self._fits_graphs(state):
            self._unpadded_layers.run_graph(state)
        while state.layer < stop:
            layer = state.layer
            chosen = only if layer == stop - 1 else None
            if chosen is None and state.kept_tokens is not None and self._drop(state, state.kept_tokens):
                continue
            run = self.layer_run(state, edits, watch, taps)
            run.memory = memory
            if chosen is not None and state.kept_tokens is not None:
                chosen = find(state.kept_tokens, chosen)
            if edits is not None and edits.sites is not None:
                self._run_changed(state, run, edits.sites, chosen)
            elif self._unpads(state, run):
                self._unpadded_layers.run(state, run, chosen)
            else:
                state.hidden = self._run_layer(state, run, chosen)
            state.context = None
            state.layer += 1
        if only is not None:
            state.kept_tokens = None

    def _run_changed(self, state: State, run: LayerRun, sites: SiteEdits, only: torch.Tensor | None) -> None:
        """Runs the state's layer with changes at its sites, and at the state behind it; at all positions if there are any, as
        changes name positions of the text."""
        touched = sites.touch(state.layer)
        with changing_sites(self.architecture, state.layer, sites):
            output = self._run_layer(state, run, None if touched else only)
        state.hidden = pick(sites.apply_to_states(state.layer + 1, output), only) if touched else output

    def capture(self) -> None:
        if self.capabilities.unpadded:
            self._unpadded_layers.capture(self.dtype, self.device, masked_lm=self.capabilities.masked_lm)

    def _fits_graphs(self, state: State) -> bool:
        """Returns whether the state is one that graphs begin with, and nobody asked for gradients or padding."""
        return state.layer == 0 and state.context is None and not self._in_padded_rows and not torch.is_grad_enabled()

    def likeliest(self, state: State, positions: Sequence[Sequence[int]], top_k: int) -> torch.Tensor | None:
        graphs = self._unpadded_layers.graphs
        return graphs.likeliest(state, positions, top_k) if graphs is not None and self._fits_graphs(state) else None

    @property
    def graph_sizes(self) -> tuple[RoomSize, ...]:
        """The sizes of batches that the CUDA graphs of `capture` have room for."""
        return self._unpadded_layers.graph_sizes

    def _unpads(self, state: State, run: LayerRun) -> bool:
        """Returns whether the state's layer runs without padding: where nobody watches it, and where that saves time."""
        watched = run.on_maps is not None or run.on_context is not None or self._in_padded_rows
        if not self.capabilities.unpadded or watched or state.context is not None or not self._kept_heads(state.layer):
            return False
        return self._unpadded_layers.worth(state)

    def layer_run(
        self,
        state: State,
        edits: BatchEdits | None,
        watch: Mapping[int, MapWatcher] | None = None,
        taps: Mapping[int, ContextWatcher] | None = None,
    ) -> LayerRun:
        """Returns the run of the state's layer, for its remaining heads."""
        run = LayerRun.of(state.layer, edits, watch, taps)
        run.exact = self._exact
        if run.uniform is not None:
            run.average = state.average
        kept = self._kept.get(state.layer)
        return run if kept is None else run.without_pruned(kept, self.shape.heads)

    def _drop(self, state: State, kept_tokens: KeptTokens) -> bool:
        """Runs a layer that drops tokens, between its two parts if it has them. Returns False, and does nothing, if it drops
        none."""
        layer, hidden = state.layer, state.hidden
        counts = kept_counts(kept_tokens, state.lengths, self._kept_shares[layer])
        if counts is None:
            return False
        seen: list[torch.Tensor] = []
        run = LayerRun(on_maps=lambda maps: seen.append(received(maps, state.valid)), exact=self._exact)
        if in_parts := self._in_parts(layer):
            query, key, value = project(self.architecture, layer, hidden, hidden)
            output = gated_attention(query, key, value, self._mask(state), run=run).flatten(2)
        else:
            output = self._run_layer(state, run, None)
        # Without heads no token receives attention.
        scores = seen[0] if seen else hidden.new_zeros(hidden.shape[:2], dtype=torch.float32)
        index, left = choose(kept_tokens, state.valid, scores, counts)
        output = pick(output, index)
        go_on(state, self.architecture.finish(layer, output, pick(hidden, index)) if in_parts else output, left, counts)
        state.layer += 1
        return True

    def _run_layer(self, state: State, run: LayerRun, only: torch.Tensor | None) -> torch.Tensor:
        """Returns a layer's output at the positions `only` [rows, n], None for all; runs it in two parts if that saves time."""
        layer, hidden, context = state.layer, state.hidden, state.context
        if run.on_maps is None and run.on_context is None:
            if context is not None and run.blocked is None:
                own = run.gate(pick(context.own, only).transpose(1, 2), context.mean[:, :, None])
                return self.architecture.finish(layer, own.transpose(1, 2).flatten(2), pick(hidden, only))
            if only is not None and only.shape[1] < hidden.shape[1] and self._in_parts(layer):
                return run_narrow(self.architecture, layer, pick(hidden, only), hidden, run, self._mask(state))
        places = None if state.kept_tokens is None else state.kept_tokens.places
        output = self.architecture.run_layer(layer, hidden, state.valid, run, places)
        if not self._kept_heads(layer):
            rows, length = hidden.shape[:2]
            run.pass_zeros(rows, length, self.architecture.head_size, self.device)
        return pick(output, only)

    @cached_property
    def _kept(self) -> dict[int, torch.Tensor]:
        """Numbers of the remaining heads, int64 on the device, of layers that lost some."""
        # Autograd rejects tensors that were made in inference mode, in which most batches run.
        with torch.inference_mode(False):
            kept = self.architecture.kept.items()
            return {
                layer: to_device(torch.tensor(heads, dtype=torch.int64, device="cpu"), self.device) for layer, heads in kept
            }

    @property
    def decomposition(self) -> TorchDecomposition:
        """Takes its layers apart."""
        return TorchDecomposition(self)

    @property
    def head_size(self) -> int:
        return self.architecture.head_size

    def site_refusal(self, site: Site, layer: int) -> str | None:
        return None

    def site_size(self, site: Site) -> int:
        if site is Site.ACTIVATIONS:
            return self.activation_size
        return self.shape.hidden_size if site is Site.STATE else self.architecture.inner_size

    @property
    def activation_size(self) -> int:
        return self.architecture.activation_size

    @contextmanager
    def in_padded_rows(self) -> Iterator[None]:
        """Keeps the padding of rows while layers run: where attention is computed apart."""
        self._in_padded_rows = True
        try:
            yield
        finally:
            self._in_padded_rows = False

    def _in_parts(self, layer: int) -> bool:
        return self.architecture.in_parts and self._kept_heads(layer)

    def _kept_heads(self, layer: int) -> bool:
        """Returns whether the weights have heads in a layer."""
        return bool(self.architecture.kept.get(layer, (0,)))

    @staticmethod
    def _mask(state: State) -> torch.Tensor | None:
        return None if state.valid is None else state.valid[:, None, None, :]

    def attend(self, state: State) -> None:
        if not self._in_parts(state.layer):
            return
        query, key, value = project(self.architecture, state.layer, state.hidden, state.hidden)
        own = gated_attention(query, key, value, self._mask(state), run=LayerRun(exact=self._exact))
        state.context = Context(own, (value * state.average).sum(dim=2))

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self._predicted(self.architecture.predict, state, rows, positions)

    def entry_logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        predict = partial(predict_entries, architecture=self.architecture, rows=self._decoder_rows, ids=ids)
        return self._predicted(predict, state, rows, positions)

    @cached_property
    def _decoder_rows(self) -> torch.Tensor | None:
        return decoder_rows(self.architecture)

    @staticmethod
    def _predicted(
        predict: Callable[[torch.Tensor], torch.Tensor], state: State, rows: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        if state.pending is not None and isinstance(states := state.unpadded, UnpaddedStates):
            return predict(states.hidden[states.tokens.at(rows, positions)]).float()
        if state.kept_tokens is None:
            return predict(state.hidden[rows, positions]).float()
        index, there = look_up(state.kept_tokens, rows, positions)
        return predict(state.hidden[rows, index]).float().masked_fill(~there[:, None], torch.nan)

    def classify(self, state: State) -> torch.Tensor:
        return self.architecture.classify(state.hidden, state.valid).float()

    def label_tokens(self, state: State) -> torch.Tensor:
        return self.architecture.label_tokens(state.hidden).float()

    def answer(self, state: State) -> torch.Tensor:
        return self.architecture.answer(state.hidden).float()

    def relate(self, state: State) -> torch.Tensor:
        return self.architecture.relate(state.hidden).float()

    @property
    def reads_first(self) -> bool:
        return self.architecture.reads_first
