"""Runs exported graphs in steps, with ONNX Runtime.

Rows without gates and watchers run the fast graph, from their ids to the requested positions. All other rows run the analysis
graph layer by layer, cut in two where the gates act: contexts from hidden states, the next hidden states from gated contexts.
Attention is fused in both; maps are computed beside it. Parts are made when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from bertscope_service.encoders.base import Capabilities, ContextWatcher, MapWatcher, Shape
from bertscope_service.encoders.edits import BatchEdits, Edits
from bertscope_service.encoders.gating import LayerRun, pick, place_edits
from bertscope_service.encoders.onnx.decomposition import OnnxDecomposition
from bertscope_service.encoders.onnx.details import read_details
from bertscope_service.encoders.onnx.gpu_operators import check_operators
from bertscope_service.encoders.onnx.parts import Parts, read_graph
from bertscope_service.encoders.onnx.sessions import Session, SessionSettings, unreadable
from bertscope_service.encoders.onnx.site_parts import SiteParts
from bertscope_service.encoders.onnx.values import (
    ANALYSIS,
    ANSWERS,
    FAST,
    GATED,
    HIDDEN,
    IDS,
    LABELS,
    LAST,
    LOGITS,
    MAPS,
    MEAN,
    NEXT_SENTENCE,
    OWN,
    POSITIONS,
    SEGMENTS,
    TOKEN_LABELS,
    VALID,
    at,
)
from bertscope_service.encoders.placement import place_rows
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.site_edits import SiteEdits
from bertscope_service.encoders.sites import Site
from bertscope_service.encoders.state import Context, State, to_device

INT8 = "int8"
"""The precision whose activations are integers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Embedding:
    """Embeds rows when it is called. The fast graph runs them from `feeds` to the end, and needs no call."""

    feeds: Mapping[str, torch.Tensor]
    embed: Callable[[Mapping[str, torch.Tensor]], torch.Tensor]

    def __call__(self) -> torch.Tensor:
        return self.embed(self.feeds)


class OnnxEncoder:
    """A folder that bertscope exported; the `Encoder` of the ONNX runtime."""

    runtime = "onnx"
    dtype = torch.float32

    def __init__(
        self,
        parts: Parts,
        shape: Shape,
        capabilities: Capabilities,
        settings: SessionSettings,
        precision: str,
        *,
        head_size: int,
        reads_first: bool,
    ) -> None:
        self.shape = shape
        self.capabilities = capabilities
        self.device = settings.device
        self.precision = precision
        self.reads_first = reads_first
        self.head_size = head_size
        self._parts = parts
        self._weights = settings.weights
        self._last = at(HIDDEN, shape.layers)
        # A model that is read at chosen positions runs its last layer only there; one that is read whole does not need to.
        heads_choose = capabilities.masked_lm or capabilities.next_sentence
        self._chooses = heads_choose or (capabilities.sequence_head and reads_first)
        inputs, self._end = ((IDS, SEGMENTS, VALID, POSITIONS), LAST) if self._chooses else ((IDS, SEGMENTS, VALID), self._last)
        # Made now, so that a broken file fails at loading. For a small model, one session from ids to the end is a third faster
        # than one to the embeddings and another from there.
        self._body = parts.make(FAST, inputs, (self._end,))

    @classmethod
    def load(cls, folder: Path, details: Mapping[str, Any], settings: SessionSettings, precision: str) -> OnnxEncoder:
        """Reads an exported folder; `details` are its manifest's. Raises FailedPrecondition if it can't be read or run,
        Unsupported for graphs in 8 bits on a GPU."""
        try:
            shape, capabilities = read_details(details)
            head_size, reads_first = int(details["head_size"]), bool(details["reads_first"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise unreadable(folder, error) from error
        graphs = {name: read_graph(folder, name) for name in (FAST, ANALYSIS)}
        check_operators(graphs.values(), settings.device, folder)
        parts = Parts(graphs, settings)
        return cls(parts, shape, capabilities, settings, precision, head_size=head_size, reads_first=reads_first)

    @property
    def resident_bytes(self) -> int:
        """The memory of the weights of all parts made so far."""
        copies = self.decomposition.bytes if "decomposition" in vars(self) else 0
        return self._parts.bytes + copies

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        ids, segments, lengths, valid = place_rows(sequences, self.device)
        feeds = {IDS: ids, SEGMENTS: segments, VALID: self._valid(valid, ids.shape)}
        return State(_Embedding(feeds, self._embed), lengths, valid)

    def _embed(self, feeds: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Returns the hidden states before the first layer."""
        first = at(HIDDEN, 0)
        embeddings = self._parts.get(FAST, (IDS, SEGMENTS, VALID), (first,))
        return embeddings.run(feeds, {first: (*feeds[IDS].shape, self.shape.hidden_size)})[first]

    def place_edits(self, edits: Sequence[Edits | None]) -> BatchEdits | None:
        return place_edits(edits, self.shape, self.device)

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
        touched = bool(watch or taps or (edits is not None and (edits.layers or edits.sites)))
        if not touched and stop == self.shape.layers and isinstance(state.pending, _Embedding):
            self._run_body(state, state.pending.feeds, only)
        while state.layer < stop:
            layer = state.layer
            run, chosen = self.layer_run(state, edits, watch, taps), only if layer == stop - 1 else None
            if edits is not None and edits.sites is not None:
                self._run_changed(state, run, edits.sites, chosen)
            else:
                self.run_layer(state, run, chosen)

    def _run_changed(self, state: State, run: LayerRun, sites: SiteEdits, only: torch.Tensor | None) -> None:
        """Runs the state's layer with changes at its sites, and at the state behind it; at all positions if there are any, as
        changes name positions of the text."""
        layer = state.layer
        touched = sites.touch(layer)
        values = self.sites.values_of(layer) if run.blocked is not None else ""
        self.run_layer(state, run, None if touched else only, values, sites)
        if touched:
            state.hidden = pick(sites.apply_to_states(layer + 1, state.hidden), only)

    def layer_run(
        self,
        state: State,
        edits: BatchEdits | None,
        watch: Mapping[int, MapWatcher] | None,
        taps: Mapping[int, ContextWatcher] | None,
    ) -> LayerRun:
        """Returns the run of the state's layer, for its remaining heads."""
        run, kept = LayerRun.of(state.layer, edits, watch, taps), self._kept.get(state.layer)
        return run if kept is None else run.without_pruned(kept, self.shape.heads)

    def run_layer(
        self, state: State, run: LayerRun, only: torch.Tensor | None, values: str = "", sites: SiteEdits | None = None
    ) -> None:
        """Runs the state's layer. `values`: the name of V in the graph, if `run.on_values` is to get them, or if attention is
        blocked. `sites`: changes inside it."""
        state.hidden = self._run_layer(state, run, only, values, sites)
        state.context = None
        state.layer += 1

    def _run_body(self, state: State, feeds: Mapping[str, torch.Tensor], only: torch.Tensor | None) -> None:
        """Runs all layers from ids, the last one only at the requested positions."""
        rows, length = feeds[IDS].shape
        wanted = length
        if self._chooses:
            if only is None:
                only = torch.arange(length, dtype=torch.int64, device=self.device).expand(rows, length)
            wanted = only.shape[1]
            if wanted == 1 and self.precision == INT8:
                # A product of one query has a separate kernel, which rounds differently; a last digit may change an integer.
                only = only.expand(rows, 2)
            feeds, length = {**feeds, POSITIONS: only}, only.shape[1]
        found = self._body.run(feeds, {self._end: (rows, length, self.shape.hidden_size)})[self._end]
        state.hidden = found[:, :wanted] if self._chooses else pick(found, only)
        state.layer = self.shape.layers

    def _run_layer(
        self, state: State, run: LayerRun, only: torch.Tensor | None, values: str, sites: SiteEdits | None
    ) -> torch.Tensor:
        """Returns a layer's output at the positions `only` [rows, n], None for all."""
        layer, hidden = state.layer, state.hidden
        rows, length, size = hidden.shape
        after = at(HIDDEN, layer + 1)
        if not self.shape.heads_of(layer):
            run.pass_zeros(rows, length, self.head_size, self.device)
            whole = self._parts.get(ANALYSIS, (at(HIDDEN, layer), VALID), (after,))
            feeds = {at(HIDDEN, layer): hidden, VALID: self._valid(state.valid, (rows, length))}
            return pick(whole.run(feeds, {after: hidden.shape})[after], only)
        watched = bool(run.on_maps or run.on_context or values)
        context = self._read(state, run, values) if state.context is None or watched else state.context
        own = run.gate(pick(context.own, only).transpose(1, 2), context.mean[:, :, None]).transpose(1, 2)
        if sites is not None and sites.inside(layer):
            return self.sites.finish(layer, sites, own, pick(hidden, only))
        finish = self._parts.get(ANALYSIS, (at(GATED, layer), at(HIDDEN, layer)), (after,))
        feeds = {at(GATED, layer): own, at(HIDDEN, layer): pick(hidden, only)}
        return finish.run(feeds, {after: (rows, own.shape[1], size)})[after]

    def _read(self, state: State, run: LayerRun, values: str = "") -> Context:
        """Returns the contexts of the state's layer, after passing them to watchers."""
        layer, hidden = state.layer, state.hidden
        rows, length = hidden.shape[:2]
        count, size = len(self.shape.heads_of(layer)), self.head_size
        fetch: dict[str, tuple[int, ...]] = {at(OWN, layer): (rows, length, count, size), at(MEAN, layer): (rows, count, size)}
        if run.on_maps is not None or run.blocked is not None:
            fetch[at(MAPS, layer)] = (rows, count, length, length)
        if values:
            fetch[values] = (rows, length, count * size)
        attention = self._parts.get(ANALYSIS, (at(HIDDEN, layer), VALID), tuple(fetch))
        found = attention.run({at(HIDDEN, layer): hidden, VALID: self._valid(state.valid, (rows, length))}, fetch)
        if run.blocked is not None:
            chosen = (run.blocked.rows,)
            maps = run.block(found[at(MAPS, layer)][chosen])
            context = torch.einsum("rhqk,rkhs->rqhs", maps, found[values][chosen].unflatten(2, (count, size)))
            found[at(MAPS, layer)] = found[at(MAPS, layer)].index_put(chosen, maps)
            found[at(OWN, layer)] = found[at(OWN, layer)].index_put(chosen, context)
        if run.on_maps is not None:
            run.on_maps(found[at(MAPS, layer)])
        if values and run.on_values is not None:
            run.on_values(found[values].unflatten(2, (count, size)).transpose(1, 2))
        if run.on_context is not None:
            run.on_context(found[at(OWN, layer)].transpose(1, 2))
        return Context(found[at(OWN, layer)], found[at(MEAN, layer)])

    def attend(self, state: State) -> None:
        if self.shape.heads_of(state.layer):
            state.context = self._read(state, LayerRun())

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        chosen = state.hidden[rows, positions][None]
        return self._head.run({LAST: chosen}, {LOGITS: (len(rows), self.shape.vocabulary_size)})[LOGITS]

    def classify(self, state: State) -> torch.Tensor:
        rows, length = state.hidden.shape[:2]
        feeds = {LAST: state.hidden}
        if not self.reads_first:
            feeds = {self._last: state.hidden, VALID: self._valid(state.valid, (rows, length))}
        return self._labels.run(feeds, {LABELS: (rows, self.shape.sequence_scores)})[LABELS]

    def label_tokens(self, state: State) -> torch.Tensor:
        return self._read_positions(state, TOKEN_LABELS, len(self.shape.head_labels))

    def answer(self, state: State) -> torch.Tensor:
        return self._read_positions(state, ANSWERS, 2)

    def _read_positions(self, state: State, name: str, scores: int) -> torch.Tensor:
        """Returns what a head gives at every position: [rows, length, scores]."""
        head = self._parts.get(FAST, (self._last,), (name,))
        return head.run({self._last: state.hidden}, {name: (*state.hidden.shape[:2], scores)})[name]

    def relate(self, state: State) -> torch.Tensor:
        head = self._parts.get(FAST, (LAST,), (NEXT_SENTENCE,))
        return head.run({LAST: state.hidden}, {NEXT_SENTENCE: (len(state.hidden), 2)})[NEXT_SENTENCE]

    @cached_property
    def sites(self) -> SiteParts:
        """Changes the vectors inside its layers."""
        return SiteParts(self._parts, self.shape, self.precision, self.decomposition)

    def site_refusal(self, site: Site, layer: int) -> str | None:
        return self.sites.refusal(site, layer)

    def site_size(self, site: Site) -> int | None:
        return self.sites.size(site)

    @cached_property
    def _head(self) -> Session:
        return self._parts.make(FAST, (LAST,), (LOGITS,))

    @cached_property
    def _labels(self) -> Session:
        return self._parts.make(FAST, (LAST,) if self.reads_first else (self._last, VALID), (LABELS,))

    @cached_property
    def _kept(self) -> dict[int, torch.Tensor]:
        """Numbers of the remaining heads, int64 on the device, of layers that lost some."""
        return {layer: self._index(self.shape.heads_of(layer)) for layer in self.shape.pruned}

    def _index(self, numbers: Sequence[int]) -> torch.Tensor:
        return to_device(torch.tensor(numbers, dtype=torch.int64, device="cpu"), self.device)

    @cached_property
    def decomposition(self) -> OnnxDecomposition:
        """Takes its layers apart."""
        return OnnxDecomposition(self, self._parts, self.head_size, self._weights)

    def _valid(self, valid: torch.Tensor | None, shape: Sequence[int]) -> torch.Tensor:
        return torch.ones(tuple(shape), dtype=torch.bool, device=self.device) if valid is None else valid
