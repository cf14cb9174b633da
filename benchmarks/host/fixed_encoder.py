"""A server whose encoders compute nothing: what is left is the host's share of a call.

python -m benchmarks.host.fixed_encoder --model tiny=FOLDER [any flag of bertscope serve]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from bertscope_service import __main__ as service
from bertscope_service.encoders.base import Encoder, MapWatcher
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.placement import place_rows
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.loading import read_model
from bertscope_service.models.registry import Report
from bertscope_service.rpc import hosting


class FixedEncoder:
    """Answers from fixed tensors; batches are assembled as for the encoder it stands in for."""

    reads_first = True

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        shape = encoder.shape
        draw = torch.Generator().manual_seed(5)
        self._scores = torch.randn(1, shape.vocabulary_size, generator=draw)
        self._labels = torch.randn(1, max(1, len(shape.labels)), generator=draw)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        ids, _, lengths, valid = place_rows(sequences, self._encoder.device)
        hidden = torch.zeros((), dtype=self._encoder.dtype).expand(*ids.shape, self._encoder.shape.hidden_size)
        return State(hidden, lengths, valid)

    def advance(
        self,
        state: State,
        stop: int,
        gates: BatchEdits | None = None,
        watch: Mapping[int, MapWatcher] | None = None,
        *,
        taps: object = None,
        only: torch.Tensor | None = None,
    ) -> None:
        rows, length, size = state.hidden.shape
        for layer, see in (watch or {}).items():
            if state.layer <= layer < stop:
                see(torch.full((), 1 / length).expand(rows, self._encoder.shape.heads, length, length))
        state.layer = stop
        if only is not None:
            state.hidden = state.hidden[:, :1].expand(rows, only.shape[1], size)

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self._scores.expand(len(rows), -1).contiguous()

    def classify(self, state: State) -> torch.Tensor:
        return self._labels.expand(len(state.lengths), -1)


def main() -> int:
    """Runs the server. The models are read as ever; only their encoders are replaced, before the server begins."""

    def read_fixed(spec: LoadSpec, report: Report, **options: Any) -> LoadedModel:
        model = read_model(spec, report, **options)
        return replace(model, encoder=cast(Encoder, FixedEncoder(model.encoder)), alternatives=())

    setattr(hosting, "read_model", read_fixed)  # noqa: B010 - mypy takes no assignment to another module
    return service.run()


if __name__ == "__main__":
    sys.exit(main())
