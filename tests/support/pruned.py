"""A checkpoint, what is left of it without some heads, and how both are run and compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import RemoveHeads
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.compress import compress
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.tiny import SENTENCES

Heads = Mapping[int, tuple[int, ...]]
HEADS = (0, 1, 2, 3)
SETS: dict[str, Heads] = {
    "one head": {1: (2,)},
    "several layers": {0: (0, 3), 2: (1,)},
    "a whole layer": {1: HEADS},
    "a layer and more": {0: HEADS, 1: (0, 1, 3)},
    "all heads": {0: HEADS, 1: HEADS, 2: HEADS, 3: HEADS},
}


def load(architecture: str, folder: Path, *, pack: bool = False, precision: str = "fp32") -> TorchEncoder:
    return load_encoder(folder, architecture, device=torch.device("cpu"), precision=precision, pack=pack)


def prune(folder: Path, heads: Heads, target: Path) -> Path:
    compress(inspect(folder), (RemoveHeads(heads),), target, lambda _: None, "sha256:0")
    return target


def gates(encoder: TorchEncoder, heads: Heads, keep: float = 0.0, uniform: float = 0.0) -> Edits:
    """Some heads changed, by default closed."""
    shape = (encoder.shape.layers, encoder.shape.heads)
    found = Edits(np.ones(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32))
    for layer, changed in heads.items():
        found.keep[layer, changed], found.uniform[layer, changed] = keep, uniform
    return found


@torch.no_grad()
def run(
    encoder: TorchEncoder, batch: Sequence[TokenSequence], changed: Sequence[Edits | None] | None = None, *, watch: bool = False
) -> list[list[torch.Tensor]]:
    """For each row: its hidden states after every layer (real tokens only), its scores, and with `watch` its maps."""
    state, placed = encoder.begin(batch), encoder.place_edits(changed or [None])
    hidden, maps = [], list[torch.Tensor]()
    for layer in range(encoder.shape.layers):
        encoder.advance(state, layer + 1, placed, {layer: lambda seen: maps.append(seen.clone())} if watch else None)
        hidden.append(state.hidden)
    found = [[*(one[row, :length] for one in hidden)] for row, length in enumerate(state.lengths)]
    for row, length in enumerate(state.lengths):
        found[row] += [one[row, :, :length, :length] for one in maps]
        if encoder.capabilities.masked_lm:
            positions = torch.arange(length)
            found[row].append(encoder.logits(state, torch.full_like(positions, row), positions))
    if encoder.shape.labels:
        for row, scores in enumerate(encoder.classify(state)):
            found[row].append(scores)
    return found


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@dataclass
class Whole:
    """A checkpoint that nothing is missing from."""

    architecture: str
    folder: Path
    root: Path
    _pruned: dict[str, Path] = field(default_factory=dict)

    def heads(self, name: str) -> Heads:
        """A set of heads, those of layers that the model has."""
        return {layer: heads for layer, heads in SETS[name].items() if layer < self.encoder.shape.layers}

    def without(self, name: str) -> Path:
        """The checkpoint without a set of heads, written once."""
        if name not in self._pruned:
            self._pruned[name] = prune(self.folder, self.heads(name), self.root / name)
        return self._pruned[name]

    @cached_property
    def encoder(self) -> TorchEncoder:
        return load(self.architecture, self.folder)

    @cached_property
    def sequences(self) -> list[TokenSequence]:
        """Texts of mixed length, one as long as the model reads, and one of a single token."""
        tokenizer = TextTokenizer.load(self.folder, self.encoder.shape.max_tokens)
        texts = [*SENTENCES[:4], SENTENCES[-1] * 2]
        found = [tokenizer.encode(text, truncate=True).sequence for text in texts]
        return [*found, TokenSequence(found[0].ids[:1], [0])]

    def parameters_of(self, heads: Heads) -> int:
        """Number of parameters that some heads take: rows of query, key and value, columns of the output projection."""
        config = self.encoder.architecture.model.config
        width = config.true_hidden_size if self.architecture == "mobilebert" else config.hidden_size
        value_width = config.hidden_size if self.architecture == "mobilebert" else width
        biases = 0 if self.architecture == "modernbert" else 3
        each = int(width // config.num_attention_heads) * int(3 * width + value_width + biases)
        return sum(map(len, heads.values())) * each
