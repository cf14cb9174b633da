"""Builds shapes with random weights as models that run like any that was loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from bertscope_service.benchmarks.shapes import Recurrent, Transformer
from bertscope_service.compression.drafts import draft
from bertscope_service.compression.plan import Plan, Subject, plan
from bertscope_service.compression.steps import EliminateTokens, Int8, OnnxExport, Step, WeightOnly
from bertscope_service.encoders.base import Encoder, Shape
from bertscope_service.encoders.bilstm import BilstmEncoder, random_bilstm
from bertscope_service.encoders.torch_pruning import PARTS
from bertscope_service.encoders.torch_random import random_encoder, random_model
from bertscope_service.engine.flight import out_of_memory
from bertscope_service.errors import FailedPrecondition
from bertscope_service.loaded import LoadedModel, LoadSpec, Made
from bertscope_service.registry import Report
from bertscope_service.scratch import Scratch
from bertscope_service.sources import inspect
from bertscope_service.tokenization import TextTokenizer

SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
"""All that the tokenizer of a shape knows: its words would mean nothing."""

TORCH_ONLY = (EliminateTokens, WeightOnly)
"""Steps of the recipes that ONNX Runtime has nothing for: it has no dictionaries, only blocks of 4 and 8 bits."""

FLOAT32_BYTES = 4
Check = Callable[[], None]
"""Called now and then from the building thread; may raise, which abandons the work."""


@dataclass(frozen=True, slots=True)
class Built:
    """A model that was built, and how, in words."""

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
        """A shape, and what some steps make of it. `runtime` is "torch" or "onnx"; what onnx can't do torch does.

        Only what needs a checkpoint, steps or an export, goes through a temporary folder. Raises FailedPrecondition if memory
        or disk is too small, Unsupported for what can't be done on this device.
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
        if isinstance(shape, Recurrent):
            sizes = shape.vocabulary, shape.embedding, shape.units, shape.classifier, shape.labels
            return BilstmEncoder(random_bilstm(*sizes), device=self.device, precision=self.precision)
        return random_encoder(shape.architecture, shape.settings, device=self.device, precision=self.precision)

    def _through_folder(self, spec: LoadSpec, shape: Transformer, steps: Sequence[Step], words: str, check: Check) -> Built:
        """Save the shape, and have it compressed and read as CompressModel has it."""
        planned = plan_steps(spec, shape, steps)
        with Scratch() as scratch:
            folder = scratch.folder / "shape"
            write_shape(shape, folder)
            digest = inspect(folder).digest(lambda _: check())
            made = Made(str(folder), "", digest, planned.steps, folder=None)
            precision = planned.precision or spec.precision
            model = self.read(replace(spec, precision=precision, made=made), lambda _: check())
        # Without the list of all heads that are gone, which stands in parentheses.
        applied = [step.description.partition(" (")[0] for step in model.steps if step.step != OnnxExport.name]
        return Built(model, "; ".join([words, *applied]))


def library(shape: Transformer | Recurrent, steps: Sequence[Step], runtime: str, device: torch.device) -> str:
    """What runs a shape after some steps on a device, if `runtime` is wanted."""
    if isinstance(shape, Recurrent) or any(isinstance(step, TORCH_ONLY) for step in steps):
        return "torch"
    # PyTorch multiplies 8-bit integers on a CPU alone.
    quantised = any(isinstance(step, Int8) for step in steps)
    return "onnx" if quantised and device.type != "cpu" else runtime


def plan_steps(spec: LoadSpec, shape: Transformer, steps: Sequence[Step]) -> Plan:
    """What is done to a shape, the export included. Raises Unsupported for a step that this device can't do."""
    todo = [*steps, OnnxExport()] if spec.runtime == "onnx" else steps
    dimensions = Shape(
        architecture=shape.architecture,
        layers=shape.layers,
        heads=shape.heads,
        hidden_size=shape.hidden,
        vocabulary_size=shape.vocabulary,
        max_tokens=0,
        parameters=0,
        has_masked_lm_head=True,
        prunable=shape.architecture in PARTS,
    )
    return plan(todo, Subject(spec.name, dimensions, spec.device, has_mask=True))


def write_shape(shape: Transformer, folder: Path) -> None:
    """Save a shape as a checkpoint, with a tokenizer of special tokens. Raises FailedPrecondition if the disk is full."""
    with draft(folder) as draft_folder:
        random_model(shape.architecture, shape.settings).save_pretrained(draft_folder)
        PreTrainedTokenizerFast(tokenizer_object=special_tokens(), **SPECIAL).save_pretrained(draft_folder)


def special_tokens() -> Tokenizer:
    """A tokenizer that knows no words."""
    vocabulary = {token: number for number, token in enumerate(SPECIAL.values())}
    return Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIAL["unk_token"]))


def tokenizer(encoder: Encoder) -> TextTokenizer:
    """That of a model that was not loaded from a folder."""
    backend, mask = special_tokens(), SPECIAL["mask_token"]
    ids = backend.token_to_id(mask), backend.token_to_id(SPECIAL["unk_token"])
    return TextTokenizer(backend, special_tokens(), mask, *ids, encoder.shape.max_tokens)
