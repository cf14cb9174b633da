"""Asks servers of the Open Inference Protocol outside of any measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import numpy as np
from bertscope.inference import open_inference_pb2 as messages
from bertscope.inference import open_inference_pb2_grpc as services
from numpy.typing import NDArray

from benchmarks.lib.caller_process import OPTIONS

METHOD = "/inference.GRPCInferenceService/ModelInfer"
PATIENCE_SECONDS = 120.0


def request(model: str, inputs: Mapping[str, NDArray[np.int64]], outputs: Sequence[str] = ()) -> messages.ModelInferRequest:
    """Returns a request with raw tensors, for some outputs of a model or for all."""
    tensor, asked = messages.ModelInferRequest.InferInputTensor, messages.ModelInferRequest.InferRequestedOutputTensor
    return messages.ModelInferRequest(
        model_name=model,
        inputs=[tensor(name=name, datatype="INT64", shape=values.shape) for name, values in inputs.items()],
        outputs=[asked(name=name) for name in outputs],
        raw_input_contents=[values.tobytes() for values in inputs.values()],
    )


def infer(target: str, asked: bytes) -> bytes:
    """Makes one call."""
    with grpc.insecure_channel(target, OPTIONS) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        return call(asked, timeout=PATIENCE_SECONDS, wait_for_ready=True)


def stub(channel: Any) -> Any:
    """Returns the service's stub on a channel, of grpc or of grpc.aio."""
    return services.GRPCInferenceServiceStub(channel)
