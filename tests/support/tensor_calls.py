"""Calls of the Open Inference Protocol, and what transformers gives for the same."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from bertscope.inference import open_inference_pb2 as oip
from bertscope.inference import open_inference_pb2_grpc as oip_grpc
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from tests.support.harness import CALL_SECONDS, Host
from tests.support.tensors import arrays_of, request_of
from tests.support.tiny import SENTENCES

CLOZES = ("Paris is the capital of [MASK].", "The [MASK] sat.", "She plays the [MASK] in the garden.")


def stub_of(host: Host) -> oip_grpc.GRPCInferenceServiceStub:
    return oip_grpc.GRPCInferenceServiceStub(host.channel)


def ask(host: Host, *args: Any, **options: Any) -> dict[str, NDArray[Any]]:
    """The tensors of a reply; it must be raw if the request was."""
    request = request_of(*args, **options)
    response = stub_of(host).ModelInfer(request, timeout=CALL_SECONDS)
    assert (response.model_name, response.model_version, response.id) == (request.model_name, "1", "mine")
    assert bool(response.raw_output_contents) == bool(request.raw_input_contents)
    return arrays_of(response)


def outputs_of(host: Host, name: str) -> dict[str, oip.ModelMetadataResponse.TensorMetadata]:
    """What a model says it gives, by name."""
    metadata = stub_of(host).ModelMetadata(oip.ModelMetadataRequest(name=name), timeout=CALL_SECONDS)
    return {output.name: output for output in metadata.outputs}


class Reference:
    """A checkpoint as transformers reads it, and texts as its own tokenizer does."""

    def __init__(self, folder: Path, kind: Any = AutoModel, texts: tuple[str, ...] = SENTENCES[:5]) -> None:
        self.model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        own = [text.replace("[MASK]", self.tokenizer.mask_token) for text in texts]
        batch = self.tokenizer(own, padding=True, return_tensors="np")
        self.inputs = {name: np.asarray(values, dtype=np.int64) for name, values in batch.items()}
        self.mask = self.inputs["attention_mask"].astype(bool)

    def give(self, name: str) -> NDArray[np.float32]:
        """An output of transformers for the padded batch."""
        with torch.inference_mode():
            output = self.model(**{key: torch.from_numpy(values) for key, values in self.inputs.items()})
        return np.asarray(output[name].numpy())


def check_close(found: NDArray[Any], expected: NDArray[Any]) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
