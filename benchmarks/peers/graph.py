"""Runs the graph on ONNX Runtime, as every peer does. Needs numpy and onnxruntime alone: the peers' interpreters have no
more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""The inputs of the graph: int64 [texts, length] each."""

OUTPUT = "last_hidden_state"
"""The output of the graph: float32 [texts, length, hidden_size]."""


class Graph:
    """An ONNX file, ready to run on some threads of the CPU."""

    def __init__(self, file: str, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        # As in our server: threads that spin between two runs would take the cores from the server's own and from the client.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def run(self, feeds: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Returns the output for the inputs, by their names."""
        output: NDArray[np.float32] = self._session.run([OUTPUT], dict(feeds))[0]
        return output

    def run_together(self, requests: Sequence[Sequence[NDArray[np.int64]]]) -> list[NDArray[np.float32]]:
        """Returns the outputs of several requests, each with one array for each of INPUTS, in one run; all have one length."""
        joined: list[Any] = [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in zip(*requests, strict=True)]
        output = self.run(dict(zip(INPUTS, joined, strict=True)))
        ends = np.cumsum([len(parts[0]) for parts in requests])
        return np.split(output, ends[:-1])
