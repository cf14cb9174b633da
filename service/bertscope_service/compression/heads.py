"""Removes attention heads from a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from safetensors import safe_open

from bertscope_service.compression.drafts import draft
from bertscope_service.encoders.torch_architectures import ARCHITECTURES
from bertscope_service.encoders.torch_checkpoints import read_checkpoint
from bertscope_service.encoders.torch_pruning import Heads, parts_of, shrink, union, write_pruned
from bertscope_service.sources import Source

TOKENIZER_FILES = ("tokenizer*", "vocab.*", "merges.txt", "*.model", "special_tokens_map.json", "added_tokens.json")
FORMATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Number formats of weights, by their names in safetensors files."""


def prune_heads(source: Source, heads: Heads, target: Path) -> None:
    """Write the checkpoint of `source` without some heads into the folder `target`, which appears at the end, whole.

    `heads` are there in the whole model, and numbered as in it; those that were removed before are ignored. Weights keep the
    format that they are stored in. What nothing here reads is left out: a pooler without a classifier, a next-sentence
    head. Other programs can read the result only if they know `torch_pruning.PRUNED_KEY`.

    Blocks for seconds. Raises Unsupported for an architecture whose heads can't be removed, AlreadyExists for a target that is
    not empty, FailedPrecondition for one that can't be written or a source that can't be read.
    """
    parts_of(source.architecture)
    checkpoint = read_checkpoint(source.folder, source.architecture, stored_format(source))
    model = checkpoint.model
    shrink(model, heads, checkpoint.pruned)
    write_pruned(model.config, union(checkpoint.pruned, heads))
    prefix = ""
    if checkpoint.missing:
        # The head is random then: only the rest is worth keeping.
        prefix = f"{ARCHITECTURES[source.architecture].base}."
        model = model.base_model
    weights = {name: values for name, values in model.state_dict().items() if prefix + name not in checkpoint.missing}
    with draft(target) as folder:
        model.save_pretrained(folder, state_dict=weights)
        for path in (path for pattern in TOKENIZER_FILES for path in source.folder.glob(pattern) if path.is_file()):
            shutil.copyfile(path, folder / path.name)


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
