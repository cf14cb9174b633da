"""A checkpoint between two steps: its model in memory, its tokenizer in the folder that it is finally saved in."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import torch

from bertscope_service.checkpoints.files import DECLARED_POOLING_PATTERNS, TOKENIZER_PATTERNS
from bertscope_service.checkpoints.sources import Source
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Capabilities
from bertscope_service.encoders.heads import Head, head_of_model
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.checkpoints import read_checkpoint
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.next_sentence import with_next_sentence_head
from bertscope_service.encoders.torch.pruning import read_pruned, shrunk
from bertscope_service.encoders.torch.quantization import stored_weights
from bertscope_service.encoders.torch.weight_readers import FORMATS
from bertscope_service.encoders.torch.weights import save_checkpoint
from bertscope_service.encoders.weight_headers import FLOATS, read_headers


@dataclass(frozen=True, slots=True, eq=False)
class WorkingCopy:
    """A checkpoint that steps change in place. `missing` names the parameters of a head that the source lacks, which are
    random. `relates` says whether the model has a next-sentence head."""

    architecture: str
    model: Any
    missing: frozenset[str]
    folder: Path
    relates: bool = False

    @classmethod
    def read(cls, source: Source, folder: Path) -> WorkingCopy:
        """Reads a checkpoint in its stored format and copies its tokenizer into `folder`, which exists.

        Raises FailedPrecondition for a source that can't be read.
        """
        checkpoint = read_checkpoint(source.folder, source.architecture, stored_format(source))
        copy_description(source.folder, folder)
        return cls(source.architecture, checkpoint.model, checkpoint.missing, folder, checkpoint.relates)

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def parts(self) -> Architecture:
        """The model's embeddings, layers and heads."""
        return ARCHITECTURES[self.architecture](self.model)

    @property
    def pruned(self) -> dict[int, tuple[int, ...]]:
        """The removed heads, by layer."""
        return read_pruned(self.config)

    def tokenizer(self) -> TextTokenizer:
        """Reads its current tokenizer."""
        return TextTokenizer.load(self.folder, self.parts.max_tokens())

    def encoder(self) -> TorchEncoder:
        """Returns its current model on the CPU, in float32: a copy if it is stored in another format, else the model itself."""
        model = self.model if self.model.dtype is torch.float32 else copy.deepcopy(self.model).float()
        parts, heads = ARCHITECTURES[self.architecture](model), Capabilities(masked_lm=self.has_masked_lm_head)
        return TorchEncoder(parts, self.architecture, torch.device("cpu"), "fp32", heads, pruned=self.pruned)

    @property
    def kind(self) -> Callable[[Any], Any]:
        """The class of its model: makes a model with this one's heads from a config."""
        parts = ARCHITECTURES[self.architecture]
        kind = shrunk(parts.class_of(head_of_model(self.model)), self.pruned)
        return with_next_sentence_head(kind, parts) if self.relates else kind

    @property
    def has_masked_lm_head(self) -> bool:
        return not self.missing and head_of_model(self.model) is Head.MASKED_LM

    @property
    def worth_keeping(self) -> Any:
        """The model, or its base if some of its head is random."""
        return self.model.base_model if self.missing else self.model

    def weights(self) -> dict[str, torch.Tensor]:
        """Returns the known weights of `worth_keeping`, by name, shared ones once."""
        named = stored_weights(self.worth_keeping)
        return {name: values for name, values in named.items() if self._prefix + name not in self.missing}

    @property
    def _prefix(self) -> str:
        """The prefix that names in the model have and those in `worth_keeping` don't."""
        return f"{ARCHITECTURES[self.architecture].base}." if self.missing else ""

    def save(self) -> None:
        """Writes config.json and the weights, in their current format.

        Unused parts are left out: a pooler that no head reads, and a next-sentence head that is not whole or has no masked-LM
        head beside it.
        """
        save_checkpoint(self.worth_keeping, self.weights(), self.folder)

    def save_as(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Writes config.json and other weights than its own, in a format that only this program reads."""
        random = tuple(name.removeprefix(self._prefix) for name in self.missing)
        stored = {name: values for name, values in weights.items() if not name.startswith(random)}
        save_checkpoint(self.worth_keeping, stored, self.folder)


def copy_description(source: Path, target: Path) -> None:
    """Copies the config, the tokenizer's files, and those that declare a pooling."""
    patterns = ("config.json", *TOKENIZER_PATTERNS, *DECLARED_POOLING_PATTERNS)
    for path in (path for pattern in patterns for path in source.glob(pattern) if path.is_file()):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)


def stored_format(source: Source) -> torch.dtype:
    """Returns the widest number format among the weights; float32 if none of them is known.

    config.json may name a narrower one.
    """
    found = {tensor.dtype for tensor in read_headers(source.weight_files).values()} & set(FLOATS)
    return reduce(torch.promote_types, map(FORMATS.__getitem__, found)) if found else torch.float32
