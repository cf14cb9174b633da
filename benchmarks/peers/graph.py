"""Runs a graph on ONNX Runtime, as every peer does. Needs numpy and onnxruntime alone: the peers' interpreters have no
more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""The inputs of every graph: int64 [texts, length] each."""


class Graph:
    """An ONNX file with one output, ready to run on some threads of the CPU."""

    def __init__(self, file: str, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        # As in our server: threads that spin between two runs would take the cores from the server's own and from the client.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.inputs = tuple(value.name for value in self._session.get_inputs())
        (self.output,) = (value.name for value in self._session.get_outputs())

    def run(self, feeds: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Returns the output for the inputs, by their names."""
        output: NDArray[np.float32] = self._session.run([self.output], dict(feeds))[0]
        return output

    def run_together(self, requests: Sequence[Sequence[NDArray[np.int64]]]) -> list[NDArray[np.float32]]:
        """Returns the outputs of several requests, each with one array for each of `inputs`, in one run.

        Shorter texts are padded with zeros, which the attention mask excludes, and their outputs cut again.
        """
        lengths = [parts[0].shape[1] for parts in requests]
        joined: list[Any] = [parts[0] if len(parts) == 1 else _padded(parts) for parts in zip(*requests, strict=True)]
        output = self.run(dict(zip(self.inputs, joined, strict=True)))
        ends = np.cumsum([len(parts[0]) for parts in requests])
        outputs = np.split(output, ends[:-1])
        return [one[:, :length] for one, length in zip(outputs, lengths, strict=True)] if output.ndim > 2 else outputs


def _padded(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Joins arrays of two dimensions; zeros follow the shorter rows."""
    longest = max(part.shape[1] for part in parts)
    if all(part.shape[1] == longest for part in parts):
        return np.concatenate(parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, longest - part.shape[1]))) for part in parts])
