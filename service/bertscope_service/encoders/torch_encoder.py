"""Runs a transformers model in steps, with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.base import (
    BatchGates,
    Context,
    Gates,
    See,
    Shape,
    State,
    Tap,
    TokenSequence,
    to_device,
    valid_mask,
)
from bertscope_service.encoders.torch_architectures import ARCHITECTURES, Architecture
from bertscope_service.encoders.torch_attention import LayerRun, gated_attention
from bertscope_service.encoders.torch_checkpoints import read_checkpoint
from bertscope_service.encoders.torch_packing import can_pack, pack_linears
from bertscope_service.encoders.torch_pruning import PARTS, remaining
from bertscope_service.errors import FailedPrecondition

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class TorchEncoder:
    """A checkpoint of one of `ARCHITECTURES`; the `Encoder` of the torch runtime."""

    runtime = "torch"

    def __init__(
        self,
        architecture: Architecture,
        name: str,
        device: torch.device,
        precision: str,
        has_head: bool,
        labels: tuple[str, ...] = (),
        *,
        pruned: Mapping[int, tuple[int, ...]] | None = None,
    ) -> None:
        """`has_head` says whether there is a masked-LM head, `labels` what a classification head chooses from, `pruned` which
        heads the weights lack."""
        config, pruned = architecture.model.config, pruned or {}
        self.architecture = architecture
        self.device = device
        self.precision = precision
        self.dtype = DTYPES[precision]
        self.shape = Shape(
            architecture=name,
            layers=len(architecture.layers),
            heads=config.num_attention_heads,
            hidden_size=config.hidden_size,
            vocabulary_size=config.vocab_size,
            max_tokens=architecture.max_tokens(),
            parameters=architecture.model.num_parameters(),
            has_masked_lm_head=has_head,
            labels=labels,
            pruned=pruned,
            prunable=name in PARTS,
            differentiable=True,
        )
        architecture.kept = {layer: remaining(self.shape.heads, gone) for layer, gone in pruned.items()}
        self._padding_id = int(config.pad_token_id or 0)

    @classmethod
    def load(cls, folder: Path, name: str, *, device: torch.device, precision: str, pack: bool = True) -> TorchEncoder:
        """Read a checkpoint folder: config.json and safetensors, never pickle, never code.

        `name` is the `model_type` of its config. `pack` packs the linear layers on a CPU. Raises FailedPrecondition if weights
        are missing, broken, or don't fit the config, or if the device's memory does not hold them.
        """
        kind, checkpoint = ARCHITECTURES[name], read_checkpoint(folder, name, DTYPES[precision])
        try:
            checkpoint.model.to(device)
        except torch.OutOfMemoryError as error:
            message = (
                f"{folder} does not fit into the memory of {device} now; unload a model, or use another device or precision"
            )
            raise FailedPrecondition(message, "DEVICE_MEMORY", source=folder) from error
        head = (checkpoint.has_masked_lm_head, checkpoint.labels)
        encoder = cls(kind(checkpoint.model), name, device, precision, *head, pruned=checkpoint.pruned)
        if pack and device.type == "cpu" and can_pack(encoder.dtype):
            pack_linears(checkpoint.model, kind.reads_weights)
        return encoder

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        lengths = tuple(len(sequence) for sequence in sequences)
        ids = np.full((len(sequences), max(lengths)), self._padding_id, dtype=np.int64)
        segments = np.zeros_like(ids)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = sequence.ids
            segments[row, : len(sequence)] = sequence.segments
        valid = valid_mask(lengths, self.device)
        placed_ids = to_device(torch.from_numpy(ids), self.device)
        placed_segments = to_device(torch.from_numpy(segments), self.device)
        return State(self.architecture.embed(placed_ids, placed_segments, valid), lengths, valid)

    def place_gates(self, gates: Sequence[Gates | None]) -> BatchGates | None:
        if not any(gates):
            return None
        shape = (len(gates), self.shape.layers, self.shape.heads)
        keep, uniform = np.ones(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
        constant: dict[int, NDArray[np.float32]] = {}
        for row, gate in enumerate(gates):
            if gate is None:
                continue
            keep[row], uniform[row] = gate.keep, gate.uniform
            for layer, values in gate.constant.items():
                constant.setdefault(layer, np.zeros((len(gates), *values.shape), dtype=np.float32))[row] = values
        uniform_layers = frozenset(np.flatnonzero((uniform != 0).any(axis=(0, 2))).tolist())
        layers = frozenset(np.flatnonzero((keep != 1).any(axis=(0, 2))).tolist()) | uniform_layers | constant.keys()
        placed = {layer: self._place(values) for layer, values in constant.items()}
        return BatchGates(self._place(keep), self._place(uniform), layers, uniform_layers, placed)

    def _place(self, values: NDArray[np.float32]) -> torch.Tensor:
        return to_device(torch.from_numpy(values).to(self.dtype), self.device)

    def advance(
        self,
        state: State,
        stop: int,
        gates: BatchGates | None = None,
        watch: Mapping[int, See] | None = None,
        *,
        taps: Mapping[int, Tap] | None = None,
        only: torch.Tensor | None = None,
    ) -> None:
        average = self._average(state) if gates is not None and gates.uniform_layers else None
        while state.layer < stop:
            layer = state.layer
            run = LayerRun(see=(watch or {}).get(layer), tap=(taps or {}).get(layer))
            if gates is not None and layer in gates.layers:
                run.keep, run.constant = gates.keep[:, layer], gates.constant.get(layer)
                if layer in gates.uniform_layers:
                    run.uniform, run.average = gates.uniform[:, layer], average
            if layer in self.architecture.kept:
                run = self._without_pruned(layer, run)
            state.hidden = self._run_layer(state, run, only if layer == stop - 1 else None)
            state.context = None
            state.layer += 1

    def _run_layer(self, state: State, run: LayerRun, only: torch.Tensor | None) -> torch.Tensor:
        """A layer's output at the positions `only` [rows, n], None for all; in two parts where that saves something."""
        layer, hidden, context = state.layer, state.hidden, state.context
        if run.see is None and run.tap is None:
            if context is not None:
                own = run.gate(pick(context.own, only).transpose(1, 2), context.mean[:, :, None])
                return self.architecture.finish(layer, own.transpose(1, 2).flatten(2), pick(hidden, only))
            if only is not None and only.shape[1] < hidden.shape[1] and self._in_parts(layer):
                narrow = pick(hidden, only)
                query, key, value = self._project(layer, narrow, hidden)
                gated = gated_attention(query, key, value, self._mask(state), run=run)
                return self.architecture.finish(layer, gated.flatten(2), narrow)
        output = self.architecture.run_layer(layer, hidden, state.valid, run)
        if not self.architecture.kept.get(layer, (0,)):
            self._show_nothing(state, run)
        return pick(output, only)

    @cached_property
    def _kept(self) -> dict[int, torch.Tensor]:
        """Numbers of the heads that are left, int64 on the device, of layers that lost some."""
        # Autograd refuses tensors that were made in inference mode, in which most batches run.
        with torch.inference_mode(False):
            kept = self.architecture.kept.items()
            return {layer: to_device(torch.tensor(heads, dtype=torch.int64), self.device) for layer, heads in kept}

    def _in_parts(self, layer: int) -> bool:
        return self.architecture.in_parts and bool(self.architecture.kept.get(layer, (0,)))

    def _project(
        self, layer: int, queries: torch.Tensor, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries of some positions, keys and values of all: [rows, heads, n, head_size] each."""

        def by_head(projected: torch.Tensor) -> torch.Tensor:
            return projected.view(*projected.shape[:2], -1, self.architecture.head_size).transpose(1, 2)

        query, key, value = self.architecture.projections(layer)
        return by_head(query(queries)), by_head(key(hidden)), by_head(value(hidden))

    @staticmethod
    def _mask(state: State) -> torch.Tensor | None:
        return None if state.valid is None else state.valid[:, None, None, :]

    def attend(self, state: State) -> None:
        if not self._in_parts(state.layer):
            return
        query, key, value = self._project(state.layer, state.hidden, state.hidden)
        own = gated_attention(query, key, value, self._mask(state), run=LayerRun())
        state.context = Context(own, (value * self._average(state)).sum(dim=2))

    def _without_pruned(self, layer: int, run: LayerRun) -> LayerRun:
        """The same for the heads that are left of a layer; whoever watches sees zeros for those that are gone."""
        kept = self._kept[layer]

        def chosen(values: torch.Tensor | None) -> torch.Tensor | None:
            return None if values is None else values.index_select(1, kept)

        def show(watcher: Callable[[torch.Tensor], None], seen: torch.Tensor) -> None:
            whole = seen.new_zeros((len(seen), self.shape.heads, *seen.shape[2:]))
            watcher(whole.index_copy_(1, kept, seen))

        see, tap = (watcher and partial(show, watcher) for watcher in (run.see, run.tap))
        return LayerRun(chosen(run.keep), chosen(run.uniform), chosen(run.constant), run.average, see, tap)

    def _show_nothing(self, state: State, run: LayerRun) -> None:
        """Let those who watch a layer without heads see zeros: its attention is never called."""
        rows, length = state.hidden.shape[:2]
        for watcher, size in ((run.see, length), (run.tap, self.architecture.head_size)):
            if watcher is not None:
                watcher(torch.zeros((rows, 0, length, size), device=self.device))

    def _average(self, state: State) -> torch.Tensor:
        """1/L at each row's real tokens, 0 at its padding: [rows, 1, length, 1]."""
        if state.valid is None:
            length = state.hidden.shape[1]
            return state.hidden.new_full((len(state.lengths), 1, length, 1), 1.0 / length)
        real = state.valid.to(torch.float32)
        return (real / real.sum(dim=1, keepdim=True)).to(self.dtype)[:, None, :, None]

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.architecture.predict(state.hidden[rows, positions]).float()

    def classify(self, state: State) -> torch.Tensor:
        return self.architecture.classify(state.hidden, state.valid).float()

    @property
    def reads_first(self) -> bool:
        return self.architecture.reads_first


def pick(tensor: torch.Tensor, only: torch.Tensor | None) -> torch.Tensor:
    """[rows, length, ...] at some positions of each row, [rows, n, ...]; all of them if `only` is None."""
    return tensor if only is None else tensor[torch.arange(len(tensor), device=tensor.device)[:, None], only]
