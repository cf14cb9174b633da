"""Builds shapes with random weights as models that run like loaded ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from bertscope_service.benchmark.building import Check
from bertscope_service.benchmark.shapes import Recurrent, Transformer
from bertscope_service.checkpoints.atomic_folder import atomic_folder
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import EliminateTokens, Int8, OnnxExport, Step, WeightOnly
from bertscope_service.checkpoints.temporary_folder import TemporaryFolder
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.plan import Plan, Subject, plan
from bertscope_service.encoders.base import Capabilities, Encoder, Shape
from bertscope_service.encoders.device_memory import out_of_memory
from bertscope_service.encoders.torch.bilstm import BilstmEncoder, random_bilstm
from bertscope_service.encoders.torch.pruning import prunable
from bertscope_service.encoders.torch.quantization import stored_weights
from bertscope_service.encoders.torch.random_models import random_encoder, random_model
from bertscope_service.encoders.torch.weights import save_checkpoint
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models.loaded import Derivation, LoadedModel, LoadSpec
from bertscope_service.models.precisions import check_precision
from bertscope_service.models.registry import Report

SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
"""The whole vocabulary of a shape's tokenizer: words would mean nothing to random weights."""

TORCH_ONLY = (EliminateTokens, WeightOnly)
"""Steps of the recipes that ONNX Runtime can't run: it has no dictionaries, only blocks of 4 and 8 bits."""

FLOAT32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Built:
    """A model that was built, with a description of it in words."""

    model: LoadedModel
    description: str


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds models on a device, in a precision. Blocks for seconds and runs PyTorch in the calling thread."""

    device: torch.device
    precision: str
    read: Callable[[LoadSpec, Report], LoadedModel]
    """Reads a model from its source."""

    def build(self, name: str, shape: Transformer | Recurrent, steps: Sequence[Step], runtime: str, check: Check) -> Built:
        """Builds a shape and applies some steps. `runtime` is "torch" or "onnx"; torch runs what onnx can't.

        Only steps and exports go through a temporary folder, because they need a checkpoint. Raises FailedPrecondition if
        memory or disk is too small, Unsupported for a step that this device can't do.
        """
        runs = library(shape, steps, runtime, self.device)
        words = str(shape) if runs == runtime else f"{shape}, run by {runs}, as {runtime} can't do it"
        spec = LoadSpec(re.sub(r"[^\w.-]+", "-", name), str(shape), str(self.device), self.precision, runtime=runs)
        try:
            if isinstance(shape, Transformer) and (steps or runs == "onnx"):
                return self._through_folder(spec, shape, steps, words, check)
            encoder = self._encoder(shape)
        except Exception as error:
            if not out_of_memory(error):
                raise
            message = f"{name} does not fit into the memory of {self.device} now; unload a model"
            raise FailedPrecondition(message, "DEVICE_MEMORY") from error
        return Built(LoadedModel(spec, encoder, tokenizer(encoder), "", FLOAT32_BYTES * encoder.shape.parameters), words)

    def _encoder(self, shape: Transformer | Recurrent) -> Encoder:
        check_precision(self.precision, self.device, "torch")
        if isinstance(shape, Recurrent):
            sizes = shape.vocabulary, shape.embedding, shape.units, shape.classifier, shape.labels
            return BilstmEncoder(random_bilstm(*sizes), device=self.device, precision=self.precision)
        return random_encoder(shape.architecture, shape.settings, device=self.device, precision=self.precision)

    def _through_folder(self, spec: LoadSpec, shape: Transformer, steps: Sequence[Step], words: str, check: Check) -> Built:
        """Saves the shape, then compresses and reads it as CompressModel does."""
        planned = plan_steps(spec, shape, steps)
        with TemporaryFolder() as temporary:
            folder = temporary.folder / "shape"
            write_shape(shape, folder)
            digest = inspect(folder).digest(lambda _: check())
            made = Derivation(str(folder), "", digest, planned.steps, folder=None)
            precision = planned.precision_after(spec.precision)
            model = self.read(replace(spec, precision=precision, derivation=made), lambda _: check())
        # Leaves out the list of removed heads, which is in parentheses.
        applied = [step.description.partition(" (")[0] for step in model.steps if step.step != OnnxExport.name]
        return Built(model, "; ".join([words, *applied]))


def library(shape: Transformer | Recurrent, steps: Sequence[Step], runtime: str, device: torch.device) -> str:
    """Returns the library that runs a shape after some steps on a device, if `runtime` is requested."""
    if isinstance(shape, Recurrent) or any(isinstance(step, TORCH_ONLY) for step in steps):
        return "torch"
    # PyTorch has fast products of 8-bit integers only on a CPU.
    quantised = any(isinstance(step, Int8) for step in steps)
    return "onnx" if quantised and device.type != "cpu" else runtime


def plan_steps(spec: LoadSpec, shape: Transformer, steps: Sequence[Step]) -> Plan:
    """Plans the steps of a shape, the export included. Raises Unsupported for a step that this device can't do."""
    todo = [*steps, OnnxExport()] if spec.runtime == "onnx" else steps
    dimensions = Shape(
        architecture=shape.architecture,
        layers=shape.layers,
        heads=shape.heads,
        hidden_size=shape.hidden,
        vocabulary_size=shape.vocabulary,
        max_tokens=0,
        parameters=0,
    )
    capabilities = Capabilities(masked_lm=True, prunable=prunable(shape.architecture))
    return plan(todo, Subject(spec.name, dimensions, capabilities, spec.device, has_mask=True))


def write_shape(shape: Transformer, folder: Path) -> None:
    """Saves a shape as a checkpoint, with a tokenizer of special tokens. Raises FailedPrecondition if the disk is full."""
    with atomic_folder(folder) as beside:
        model = random_model(shape.architecture, shape.settings)
        save_checkpoint(model, stored_weights(model), beside)
        PreTrainedTokenizerFast(tokenizer_object=special_tokens(), **SPECIAL).save_pretrained(beside)


def special_tokens() -> Tokenizer:
    """Returns a tokenizer without words."""
    vocabulary = {token: number for number, token in enumerate(SPECIAL.values())}
    return Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIAL["unk_token"]))


def tokenizer(encoder: Encoder) -> TextTokenizer:
    """Returns the tokenizer of a model that was not loaded from a folder."""
    backend, mask = special_tokens(), SPECIAL["mask_token"]
    ids = backend.token_to_id(mask), backend.token_to_id(SPECIAL["unk_token"])
    return TextTokenizer(backend, mask, *ids, encoder.shape.max_tokens)
