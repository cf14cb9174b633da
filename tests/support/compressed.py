"""Checkpoints made smaller, and the same by transformers alone."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Step
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.compress import compress
from bertscope_service.encoders.sequences import TokenSequence

from tests.support.reference import Reference
from tests.support.tiny import SENTENCES

DIGEST = "sha256:" + "0" * 64


def made(folder: Path, target: Path, *steps: Step) -> Path:
    """A checkpoint after some steps."""
    compress(inspect(folder), steps, target, lambda _: None, DIGEST)
    return target


def make(folder: Path, target: Path, *steps: Step) -> Path:
    """The same, with the digest of the checkpoint."""
    source = inspect(folder)
    compress(source, steps, target, lambda _: None, source.digest(lambda _: None))
    return target


def batch_of(folder: Path) -> list[TokenSequence]:
    """Texts of mixed length."""
    tokenizer = TextTokenizer.load(folder, 64)
    return [tokenizer.encode(text).sequence for text in SENTENCES[:5]]


def logits(reference: Reference, batch: Sequence[TokenSequence]) -> torch.Tensor:
    """Scores of all real tokens of a batch, [tokens, vocabulary]."""
    output = reference.run(batch)
    return torch.cat([output.logits[row, :length] for row, length in enumerate(output.lengths)])


def networks_of(model: Any) -> list[tuple[Any, Any]]:
    """The linear layers into and out of the units of every feed-forward network, the shared ones once."""
    found = []
    for module in model.modules():
        children = dict(module.named_children())
        if "Wi" in children:
            found.append((children["Wi"], children["Wo"]))
        elif "lin1" in children:
            found.append((children["lin1"], children["lin2"]))
        elif "ffn_output" in children:
            found.append((children["ffn"], children["ffn_output"]))
        elif "intermediate" in children and "output" in children:
            found.append((children["intermediate"].dense, children["output"].dense))
    return found


def without_units(outs: Sequence[Any], removed: Sequence[torch.Tensor]) -> None:
    """Let the units that feed some linear layers give zero."""

    def silence(units: torch.Tensor) -> Callable[..., tuple[torch.Tensor]]:
        def hook(_: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            silenced = inputs[0].clone()
            silenced[..., units] = 0
            return (silenced,)

        return hook

    for out, units in zip(outs, removed, strict=True):
        out.register_forward_pre_hook(silence(units))
