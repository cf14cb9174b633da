"""Runs in Triton's Python backend: the batch that Triton made, as one. Copied into a model repository; see triton.py."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as triton  # type: ignore[import-not-found]  # Triton brings it

from benchmarks.peers.graph import Graph


class TritonPythonModel:
    """The model class; Triton looks for this name."""

    def initialize(self, args: dict[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        self._graph = Graph(parameters["file"]["string_value"], int(parameters["threads"]["string_value"]))

    def execute(self, requests: list[Any]) -> list[Any]:
        graph = self._graph
        arrays = [[triton.get_input_tensor_by_name(one, name).as_numpy() for name in graph.inputs] for one in requests]
        return [triton.InferenceResponse([triton.Tensor(graph.output, output)]) for output in graph.run_together(arrays)]
