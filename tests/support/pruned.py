"""A checkpoint, what is left of it without some heads, and how both are run and compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import RemoveHeads
from bertscope_service.compression.compress import compress
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.encoder import TorchEncoder

from tests.support import reference
from tests.support.reference import Edit, Subject, gates_of, load

__all__ = ["load"]

Heads = Mapping[int, tuple[int, ...]]
HEADS = (0, 1, 2, 3)
SETS: dict[str, Heads] = {
    "one head": {1: (2,)},
    "several layers": {0: (0, 3), 2: (1,)},
    "a whole layer": {1: HEADS},
    "a layer and more": {0: HEADS, 1: (0, 1, 3)},
    "all heads": {0: HEADS, 1: HEADS, 2: HEADS, 3: HEADS},
}


def prune(folder: Path, heads: Heads, target: Path) -> Path:
    compress(inspect(folder), (RemoveHeads(heads),), target, lambda _: None, "sha256:0")
    return target


def gates(encoder: TorchEncoder, heads: Heads, keep: float = 0.0, uniform: float = 0.0) -> Edits:
    """Some heads changed, by default closed."""
    return gates_of(encoder, {(layer, head): Edit(keep, uniform) for layer, changed in heads.items() for head in changed})


def run(
    encoder: TorchEncoder, batch: Sequence[TokenSequence], changed: Sequence[Edits | None] | None = None, *, watch: bool = False
) -> list[list[torch.Tensor]]:
    """For each row: its hidden states after every layer (real tokens only), with `watch` its maps, and its scores."""
    found = reference.run(encoder, batch, changed, watch=watch)
    return [found.row(row)[1:] for row in range(len(batch))]


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@dataclass
class Whole(Subject):
    """A checkpoint that nothing is missing from."""

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
    def sequences(self) -> list[TokenSequence]:
        """Texts of mixed length, one as long as the model reads, and one of a single token."""
        every = super().sequences
        return [*every[:4], *every[-2:]]

    def parameters_of(self, heads: Heads) -> int:
        """Number of parameters that some heads take: rows of query, key and value, columns of the output projection."""
        config = self.encoder.architecture.model.config
        width = config.true_hidden_size if self.architecture == "mobilebert" else config.hidden_size
        value_width = config.hidden_size if self.architecture == "mobilebert" else width
        biases = 0 if self.architecture == "modernbert" else 3
        each = int(width // config.num_attention_heads) * int(3 * width + value_width + biases)
        return sum(map(len, heads.values())) * each
