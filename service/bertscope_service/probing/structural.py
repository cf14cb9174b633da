"""Trains structural probes of all layers and seeds at once (Hewitt and Manning 2019, section 2).

A probe is a matrix B [rank, hidden]. Training minimises the mean over texts of

    distance: sum over pairs of |d(i, j) - |B(h_i - h_j)|^2| / n^2        depth: sum over words of |depth_i - |B h_i|^2| / n

of n words with d edges between two of them. States are those of the model, but for one factor for each layer, which B takes up:
it makes initial predictions of about the size of trees whatever the size of the model's states. Adam (Kingma and Ba 2015) takes
a step for every BATCH texts. The learning rate of a probe is halved after each epoch that does not lower its loss on the dev
texts, and the B with the lowest is kept.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.tree_probes import Tree
from bertscope_service.encoders.size_limits import CPU, SizeLimits, size_limits
from bertscope_service.probing.adam import adam_step
from bertscope_service.probing.blocks import Block, blocks, step_tokens

BATCH = 20
"""Texts in a step, as in the paper's code."""
RATE = 0.03
"""Adam's learning rate, as a share of the standard deviation of B's initial entries."""
INITIAL = 4.0
"""Mean of initial predictions, edges."""
COPIES = 7
"""Tensors as large as B: it, its gradient, the sum of gradients, Adam's averages, the best so far, and the control's."""


class Quantity(enum.Enum):
    """The quantity that a probe reads from states."""

    DISTANCE = enum.auto()
    DEPTH = enum.auto()


@dataclass(frozen=True, slots=True)
class StructuralSize:
    """The size of a training, or of a block of it: layers, length of a state, seeds, and rows of B. first_layer, first_seed:
    those of the block, among all. device: trains them."""

    layers: int
    hidden: int
    seeds: int
    rank: int
    first_layer: int = 0
    first_seed: int = 0
    device: torch.device = CPU

    @property
    def limits(self) -> SizeLimits:
        """The sizes that the device works on at a time."""
        return size_limits(self.device)

    @property
    def block(self) -> Block:
        """The layers and the seeds of the block, among all."""
        layers = slice(self.first_layer, self.first_layer + self.layers)
        return Block(layers, slice(self.first_seed, self.first_seed + self.seeds))

    @property
    def values(self) -> int:
        """The values of all matrices."""
        return self.layers * self.seeds * self.hidden * self.rank

    def blocks(self) -> Iterator[StructuralSize]:
        """Yields the blocks of a training."""
        for block in blocks(self.layers, self.seeds, self.hidden * self.rank, self.limits.updated_values):
            layers, seeds = (part.stop - part.start for part in (block.layers, block.groups))
            yield replace(self, layers=layers, seeds=seeds, first_layer=block.layers.start, first_seed=block.groups.start)

    @property
    def part_words(self) -> int:
        """The most words, padding included, that a part of a step predicts, unless one text has more."""
        return max(1, min(self.limits.structural_words, self.limits.step_products // self.values))

    @property
    def part_pairs(self) -> int:
        """The most pairs of words times probes that a part of a step predicts, unless one text has more."""
        return max(1, min(self.limits.structural_pairs, self.limits.step_products // self.rank))

    def parts(self, trees: Sequence[Tree]) -> Iterator[Sequence[Tree]]:
        """Yields some trees in parts that are predicted at a time."""
        begin, longest = 0, 0
        for index, tree in enumerate(trees):
            longest, count = max(longest, len(tree)), index + 1 - begin
            pairs = self.layers * self.seeds * count * longest**2
            if index > begin and (count * longest > self.part_words or pairs > self.part_pairs):
                yield trees[begin:index]
                begin, longest = index, len(tree)
        if begin < len(trees):
            yield trees[begin:]

    def tokens(self, trees: Sequence[Tree]) -> int:
        """Returns the tokens that a prediction counts as; see blocks.step_tokens. Training takes three times as many."""
        words = len(trees) * max(map(len, trees))
        pairs = self.layers * self.seeds * len(trees) * max(map(len, trees)) ** 2
        return step_tokens(words * self.values + pairs * self.rank, 10 * pairs)

    @property
    def bytes(self) -> int:
        """The memory that the training of a block takes beside the states and its steps, approximately."""
        return 4 * COPIES * self.values

    def step_bytes(self, longest: int) -> int:
        """Returns the memory that a step takes, approximately, by the words of the longest text."""
        probes = self.layers * self.seeds
        words, pairs = max(self.part_words, longest), max(self.part_pairs, probes * longest**2)
        part = words * self.layers * (2 * self.hidden + 4 * self.seeds * self.rank) + 6 * pairs
        return 4 * part


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Some trees, padded. rows: int64 [trees, words], where the words' states are among those of the trees; used: bool of the
    same shape, False for padding; gold: float32 distances [trees, words, words] or depths [trees, words]."""

    rows: torch.Tensor
    used: torch.Tensor
    gold: torch.Tensor

    @classmethod
    def of(cls, trees: Sequence[Tree], quantity: Quantity, device: torch.device) -> Forest:
        words = max(map(len, trees))
        rows, nodes = np.zeros((len(trees), words), dtype=np.int64), np.zeros((len(trees), words), dtype=np.int64)
        used, heads = np.zeros(rows.shape, dtype=np.bool_), np.arange(max(len(tree.heads) for tree in trees))
        heads = np.tile(heads, (len(trees), 1))
        first = 0
        for index, tree in enumerate(trees):
            own = len(tree)
            rows[index, :own], nodes[index, :own] = np.arange(first, first + own), tree.nodes
            used[index, :own], heads[index, : len(tree.heads)] = True, tree.heads
            first += own
        above = _above(torch.from_numpy(heads))
        above = above.gather(1, torch.from_numpy(nodes)[:, :, None].expand(-1, -1, above.shape[2]))
        levels = above.sum(dim=2)
        gold = levels - 1
        if quantity is Quantity.DISTANCE:
            gold = levels[:, :, None] + levels[:, None, :] - 2 * (above @ above.mT)
        return cls(*(values.to(device) for values in (torch.from_numpy(rows), torch.from_numpy(used), gold)))

    def errors(self, predicted: torch.Tensor) -> torch.Tensor:
        """Returns the mean absolute error of each tree, [layers, seeds, trees]."""
        away = (predicted - self.gold).abs()
        words = self.used.sum(dim=1)
        if self.gold.ndim == 2:
            return (away * self.used).sum(dim=-1) / words
        pairs = self.used[:, :, None] & self.used[:, None, :]
        return (away * pairs).sum(dim=(-2, -1)) / words.square()


def _above(heads: torch.Tensor) -> torch.Tensor:
    """Returns whether a word (column) is another one (row) or above it, float32 [trees, words, words]."""
    found = torch.eye(heads.shape[1], dtype=torch.float32, device="cpu").repeat(len(heads), 1, 1)
    reached = heads
    while True:
        found.scatter_(2, reached[:, :, None], 1.0)
        further = heads.gather(1, reached)
        if bool((further == reached).all()):
            return found
        reached = further


class StructuralProbes:
    """Probes of several layers and seeds that train together: a block. Methods run on the device's thread, outside inference
    mode."""

    def __init__(
        self,
        size: StructuralSize,
        quantity: Quantity,
        seeds: Sequence[int],
        device: torch.device,
        *,
        max_epochs: int,
        patience: int,
    ) -> None:
        self.size, self.quantity, self.device = size, quantity, device
        self.max_epochs, self.patience = max_epochs, patience
        self.epoch = 0
        self.best_epoch = np.zeros((size.layers, size.seeds), dtype=np.int64)
        self.best_loss = np.full((size.layers, size.seeds), math.inf)
        deviation = math.sqrt(INITIAL / size.rank)
        self.maps = _drawn(size, seeds, 0, device) * deviation
        self.projections = _drawn(size, seeds, 1, device) * deviation
        self._best = self.maps.clone()
        self._rate = torch.full((size.layers, 1, size.seeds, 1), RATE * deviation, dtype=torch.float32, device=device)
        self._mean, self._square, self._gradient = (torch.zeros_like(self.maps) for _ in range(3))
        self._waited = np.zeros((size.layers, size.seeds), dtype=np.int64)
        self._steps = 0

    def accumulate(self, states: torch.Tensor, forest: Forest, texts: int) -> None:
        """Adds the gradient of some trees of a step of `texts`. states: [words, layers, hidden]."""
        maps = self.maps.requires_grad_()
        with torch.enable_grad():
            loss = forest.errors(self.predict(states, forest, maps)).sum() / texts
            (gradient,) = torch.autograd.grad(loss, (maps,))
        self.maps = maps.detach()
        self._gradient += gradient

    @torch.no_grad()
    def update(self) -> None:
        """Takes Adam's step along the gradients added."""
        self._steps += 1
        adam_step(self.maps, self._gradient, (self._mean, self._square), self._rate, self._steps)
        self._gradient.zero_()

    @torch.no_grad()
    def end_epoch(self, loss: NDArray[np.float64]) -> bool:
        """Keeps the maps with a lower loss on the dev texts than before. Returns whether any probe may still get better."""
        self.epoch += 1
        better = loss < self.best_loss
        self.best_epoch[better], self.best_loss[better] = self.epoch, loss[better]
        self._waited = np.where(better, 0, self._waited + 1)
        kept = torch.from_numpy(better).to(self.device)[:, None, :, None]
        self._rate.mul_(torch.where(kept, 1.0, 0.5))
        torch.where(kept, self.maps, self._best, out=self._best)
        return self.epoch < self.max_epochs and bool((self._waited < self.patience).any())

    def end(self) -> None:
        """Replaces the maps by the best ones."""
        self.maps = self._best

    def predict(self, states: torch.Tensor, forest: Forest, maps: torch.Tensor) -> torch.Tensor:
        """Returns squared distances [layers, seeds, trees, words, words], or squared norms without the last dimension.

        states: [words, layers, hidden]; maps: [layers, hidden, seeds, rank].
        """
        mapped = torch.bmm(states.transpose(0, 1), maps.flatten(2)).unflatten(2, maps.shape[2:])
        mapped = mapped[:, forest.rows].permute(0, 3, 1, 2, 4)
        norms: torch.Tensor = mapped.square().sum(dim=-1)
        if self.quantity is Quantity.DEPTH:
            return norms
        products = mapped @ mapped.mT
        distances: torch.Tensor = (norms[..., :, None] + norms[..., None, :] - 2 * products).clamp(min=0)
        return distances


def _drawn(size: StructuralSize, seeds: Sequence[int], stream: int, device: torch.device) -> torch.Tensor:
    """Returns standard normal maps [layers, hidden, seeds, rank], those of each seed drawn by it."""
    layers, shape = range(size.first_layer, size.first_layer + size.layers), (size.hidden, size.rank)

    def of(seed: int, layer: int) -> NDArray[np.float32]:
        return np.random.default_rng([seed, stream, layer]).standard_normal(shape, dtype=np.float32)

    drawn = [np.stack([of(seed, layer) for layer in layers]) for seed in seeds]
    return torch.from_numpy(np.stack(drawn, axis=2)).to(device)
