"""A checkpoint between two steps: its model in memory, its tokenizer in the folder where all of it is saved at last."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from bertscope_service.encoders.torch_architectures import ARCHITECTURES, Architecture
from bertscope_service.encoders.torch_checkpoints import CLASSIFIER, read_checkpoint
from bertscope_service.encoders.torch_encoder import TorchEncoder
from bertscope_service.encoders.torch_pruning import read_pruned, shrunk
from bertscope_service.sources import Source
from bertscope_service.tokenization import TextTokenizer

TOKENIZER_FILES = ("tokenizer*", "vocab.*", "merges.txt", "*.model", "special_tokens_map.json", "added_tokens.json")
FORMATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Number formats of weights, by their names in safetensors files."""


@dataclass(frozen=True, slots=True, eq=False)
class Workpiece:
    """What steps change in place. `missing` names the parameters of a head that the source lacks, so that they are random."""

    architecture: str
    model: Any
    missing: frozenset[str]
    folder: Path

    @classmethod
    def read(cls, source: Source, folder: Path) -> Workpiece:
        """Read a checkpoint in the format it is stored in and copy its tokenizer into `folder`, which is there.

        Raises FailedPrecondition for a source that can't be read.
        """
        checkpoint = read_checkpoint(source.folder, source.architecture, stored_format(source))
        copy_description(source.folder, folder)
        return cls(source.architecture, checkpoint.model, checkpoint.missing, folder)

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def parts(self) -> Architecture:
        """Where its embeddings, layers and heads are."""
        return ARCHITECTURES[self.architecture](self.model)

    @property
    def pruned(self) -> dict[int, tuple[int, ...]]:
        """Heads that are gone, by layer."""
        return read_pruned(self.config)

    def tokenizer(self) -> TextTokenizer:
        """Its tokenizer as it is now."""
        return TextTokenizer.load(self.folder, self.parts.max_tokens())

    def encoder(self) -> TorchEncoder:
        """It as it is now on the CPU, in float32: a copy if it is stored in another format, else the model itself."""
        model = self.model if self.model.dtype is torch.float32 else copy.deepcopy(self.model).float()
        parts, has_head = ARCHITECTURES[self.architecture](model), self.has_masked_lm_head
        return TorchEncoder(parts, self.architecture, torch.device("cpu"), "fp32", has_head, pruned=self.pruned)

    @property
    def kind(self) -> Callable[[Any], Any]:
        """The class of its model: from a config to a model with as many heads as this one."""
        parts = ARCHITECTURES[self.architecture]
        return shrunk(parts.sequence_classification if self.classifies else parts.masked_lm, self.pruned)

    @property
    def classifies(self) -> bool:
        return type(self.model).__name__.endswith(CLASSIFIER)

    @property
    def has_masked_lm_head(self) -> bool:
        return not self.missing and not self.classifies

    @property
    def worth_keeping(self) -> Any:
        """The model, or its base where some of its head is random."""
        return self.model.base_model if self.missing else self.model

    def weights(self) -> dict[str, torch.Tensor]:
        """What there is of `worth_keeping`, by name."""
        named = self.worth_keeping.state_dict()
        return {name: values for name, values in named.items() if self._prefix + name not in self.missing}

    @property
    def _prefix(self) -> str:
        """What names in the model begin with and those in `worth_keeping` don't."""
        return f"{ARCHITECTURES[self.architecture].base}." if self.missing else ""

    def save(self) -> None:
        """Write config.json and the weights, in the format that they are in now. What nothing here reads is left out: a pooler
        without a classifier, a next-sentence head."""
        self.worth_keeping.save_pretrained(self.folder, state_dict=self.weights())

    def save_as(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Write config.json and other weights than its own: a format that only this program reads."""
        model = self.worth_keeping
        config = copy.deepcopy(model.config)
        config.architectures = [type(model).__name__]
        config.save_pretrained(self.folder)
        random = tuple(name.removeprefix(self._prefix) for name in self.missing)
        stored = {name: values.contiguous() for name, values in weights.items() if not name.startswith(random)}
        save_file(stored, self.folder / "model.safetensors", {"format": "pt"})


def copy_description(source: Path, target: Path) -> None:
    """Copy all but the weights: the config, and what makes up the tokenizer."""
    for path in (path for pattern in ("config.json", *TOKENIZER_FILES) for path in source.glob(pattern) if path.is_file()):
        shutil.copyfile(path, target / path.name)


def stored_format(source: Source) -> torch.dtype:
    """The widest number format among the weights; float32 if they have none that is known here.

    Not what config.json says, which may be narrower than what is there.
    """
    found: torch.dtype | None = None
    for path in source.weight_files:
        with safe_open(path, framework="pt") as file:
            for name in {file.get_slice(key).get_dtype() for key in file.keys()} & FORMATS.keys():  # noqa: SIM118
                found = FORMATS[name] if found is None else torch.promote_types(found, FORMATS[name])
    return found or torch.float32
