"""Runs a transformers model in steps, with PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers.utils import logging as transformers_logging

from bertscope_service.encoders.base import BatchGates, Gates, See, Shape, State, TokenSequence, to_device, valid_mask
from bertscope_service.encoders.torch_architectures import ARCHITECTURES, Architecture
from bertscope_service.encoders.torch_attention import NAME, LayerRun
from bertscope_service.encoders.torch_packing import can_pack, pack_linears
from bertscope_service.errors import FailedPrecondition

# Its bars would be drawn over the server's log.
transformers_logging.disable_progress_bar()

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class TorchEncoder:
    """A masked-LM checkpoint of one of `ARCHITECTURES`; the `Encoder` of the torch runtime."""

    runtime = "torch"

    def __init__(self, architecture: Architecture, name: str, device: torch.device, precision: str, has_head: bool) -> None:
        config = architecture.model.config
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
        )
        self._padding_id = int(config.pad_token_id or 0)

    @classmethod
    def load(cls, folder: Path, name: str, *, device: torch.device, precision: str, pack: bool = True) -> TorchEncoder:
        """Read a checkpoint folder: config.json and safetensors, never pickle, never code.

        `name` is the `model_type` of its config. `pack` packs the linear layers on a CPU.
        Raises FailedPrecondition if weights are missing, broken, or don't fit the config.
        """
        kind = ARCHITECTURES[name]
        try:
            model, report = kind.masked_lm.from_pretrained(
                folder,
                dtype=DTYPES[precision],
                attn_implementation=NAME,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # reported below, in words
            )
        except Exception as error:
            # transformers and safetensors raise a dozen classes here; all mean that this folder can't be read.
            message = f"the weights in {folder} can't be read: {type(error).__name__}: {one_line(error)}"
            raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder) from error
        prefix = f"{kind.base}."
        lost = sorted(key for key in report["missing_keys"] if key.startswith(prefix))
        lost += sorted(str(entry[0]) for entry in report.get("mismatched_keys", ()))
        if lost:
            message = (
                f"the weights in {folder} don't fit its config.json: {len(lost)} are missing or misshapen, first {lost[0]}"
            )
            raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)
        if not model.config.num_hidden_layers:
            raise FailedPrecondition(f"the model in {folder} has no layers", "SOURCE_UNREADABLE", source=folder)
        has_head = not report["missing_keys"]
        try:
            model.eval().requires_grad_(False).to(device)
        except torch.OutOfMemoryError as error:
            message = (
                f"{folder} does not fit into the memory of {device} now; unload a model, or use another device or precision"
            )
            raise FailedPrecondition(message, "DEVICE_MEMORY", source=folder) from error
        encoder = cls(kind(model), name, device, precision, has_head)
        if pack and device.type == "cpu" and can_pack(encoder.dtype):
            pack_linears(model, kind.reads_weights)
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
        for row, gate in enumerate(gates):
            if gate is not None:
                keep[row], uniform[row] = gate.keep, gate.uniform
        uniform_layers = frozenset(np.flatnonzero((uniform != 0).any(axis=(0, 2))).tolist())
        layers = frozenset(np.flatnonzero((keep != 1).any(axis=(0, 2))).tolist()) | uniform_layers
        placed_keep = to_device(torch.from_numpy(keep).to(self.dtype), self.device)
        placed_uniform = to_device(torch.from_numpy(uniform).to(self.dtype), self.device)
        return BatchGates(placed_keep, placed_uniform, layers, uniform_layers)

    def advance(self, state: State, stop: int, gates: BatchGates | None = None, watch: Mapping[int, See] | None = None) -> None:
        average = self._average(state) if gates is not None and gates.uniform_layers else None
        while state.layer < stop:
            run = LayerRun(see=None if watch is None else watch.get(state.layer))
            if gates is not None and state.layer in gates.layers:
                run.keep = gates.keep[:, state.layer]
                if state.layer in gates.uniform_layers:
                    run.uniform, run.average = gates.uniform[:, state.layer], average
            state.hidden = self.architecture.run_layer(state.layer, state.hidden, state.valid, run)
            state.layer += 1

    def _average(self, state: State) -> torch.Tensor:
        """1/L at each row's real tokens, 0 at its padding: [rows, 1, length, 1]."""
        if state.valid is None:
            length = state.hidden.shape[1]
            return state.hidden.new_full((len(state.lengths), 1, length, 1), 1.0 / length)
        real = state.valid.to(torch.float32)
        return (real / real.sum(dim=1, keepdim=True)).to(self.dtype)[:, None, :, None]

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.architecture.predict(state.hidden[rows, positions]).float()


def one_line(error: Exception) -> str:
    """The first line of a library's error, which may go on for pages."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
