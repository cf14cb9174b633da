"""Kinds of probes: their parameters and what they compute, for all layers and groups (a task and a seed) at once.

Parameters are float32 [layers, inputs, groups, outputs]; each group's are drawn by its seed and share nothing with another's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from bertscope_service.encoders.size_limits import CPU, SizeLimits, size_limits
from bertscope_service.probing.blocks import Block, blocks

MIN_BATCH, MAX_BATCH, MIN_BATCHES = 8, 256, 50
"""Spans in a step: an epoch has at least MIN_BATCHES of them, unless they would be too small."""
BATCH_PRODUCTS = 200_000_000
"""The most multiplications of the product of a step in which Adam's probes learn, some milliseconds on a CPU; the same on all
devices, for the batch decides what a probe learns."""
MAX_RATE = 0.05
"""The highest learning rate of weights; it is 1 / inputs otherwise."""
MIX_RATE = 0.01
"""The learning rate of mixing weights."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a training, or of a block of it: layers, length of a state, probes of a layer (groups), and classes.

    units: those of the hidden layer, 0 without one. mix: the probes read mixes of layers, number k the first k + 1 of `states`
    layers. first_layer, first_group: those of the block, among all. device: trains them.
    """

    layers: int
    hidden: int
    groups: int
    classes: int
    units: int = 0
    mix: bool = False
    states: int = 0
    first_layer: int = 0
    first_group: int = 0
    device: torch.device = CPU

    @property
    def limits(self) -> SizeLimits:
        """The sizes that the device works on at a time."""
        return size_limits(self.device)

    @property
    def block(self) -> Block:
        """The layers and the groups of the block, among all."""
        layers = slice(self.first_layer, self.first_layer + self.layers)
        return Block(layers, slice(self.first_group, self.first_group + self.groups))

    @property
    def read_layers(self) -> slice:
        """The layers whose states the block's probes read."""
        return slice(0, self.states) if self.mix else self.block.layers

    @property
    def weights(self) -> int:
        """The parameters of a probe."""
        weights = (self.hidden + 1) * (self.units or self.classes) + (self.units + 1) * self.classes * (self.units > 0)
        return weights + self.states * self.mix

    @property
    def values(self) -> int:
        """The parameters of all probes."""
        return self.layers * self.groups * self.weights

    @property
    def products(self) -> int:
        """The multiplications that all probes take for a span."""
        outputs = self.units or self.classes
        return self.layers * self.groups * (self.hidden * (outputs + self.states * self.mix) + self.units * self.classes)

    def blocks(self, most: int) -> Iterator[Size]:
        """Yields the blocks of a training, of at most so many parameters."""
        for block in blocks(self.layers, self.groups, self.weights, most):
            layers, groups = (part.stop - part.start for part in (block.layers, block.groups))
            first = {"first_layer": block.layers.start, "first_group": block.groups.start}
            yield replace(self, layers=layers, groups=groups, **first)

    def batch(self, items: int, batches: int = MIN_BATCHES, limit: int = MAX_BATCH, products: int = BATCH_PRODUCTS) -> int:
        """Returns the spans in a step of so many multiplications, at most `limit`, so that an epoch has at least `batches` of
        them."""
        return max(MIN_BATCH, min(limit, products // self.products, items // batches))

    @property
    def evaluated(self) -> int:
        """The spans that are evaluated in a step: without a gradient, a product is a third of training's work."""
        return max(MIN_BATCH, min(self.limits.evaluated_spans, 3 * self.limits.step_products // self.products))

    @property
    def surveyed(self) -> int:
        """The spans whose second moments are summed in a step."""
        return max(MIN_BATCH, min(self.limits.evaluated_spans, self.limits.step_products // (self.layers * self.hidden**2)))

    def bytes(self, copies: int) -> int:
        """Returns the memory for `copies` tensors as large as the weights."""
        return 4 * copies * self.values

    def step_bytes(self, batch: int) -> int:
        """Returns the memory that a step of `batch` spans takes beside the states, approximately."""
        values = 2 * self.hidden + self.groups * (4 * self.classes + 3 * self.units + 3 * self.hidden * self.mix)
        return 4 * max(batch, self.limits.evaluated_spans) * self.layers * values


class FeedForward:
    """Linear probes; with units, probes of one hidden layer, relu(states W + b) V + c (Hewitt and Liang 2019, section 3).

    penalised: whether each parameter is. rates: the learning rate of each.
    """

    def __init__(self, size: Size) -> None:
        self.size = size
        ends = (size.hidden, size.units, size.classes) if size.units else (size.hidden, size.classes)
        self.shapes = list(pairwise(ends))
        self.penalised = [True, False] * len(self.shapes)
        self.rates = [min(MAX_RATE, 1 / inputs) for inputs, _ in self.shapes for _ in range(2)]

    def initial(self, seeds: Sequence[int], device: torch.device) -> list[torch.Tensor]:
        """Returns the parameters to begin with: of each product the weights, then the biases of one input, which are 0.

        The weights of linear probes are next to 0. Those of a hidden layer keep the size of what they read (He et al. 2015).
        """
        layers = range(self.size.first_layer, self.size.first_layer + self.size.layers)
        generators = [[_generator(seed, layer) for layer in layers] for seed in seeds]
        found: list[torch.Tensor] = []
        for inputs, outputs in self.shapes:
            drawn = [torch.stack([_drawn(inputs, outputs, own) for own in of_seed]) for of_seed in generators]
            share = math.sqrt(2) if self.size.units and not found else 0.01
            found.append(torch.stack(drawn, dim=2).mul_(share / math.sqrt(inputs)).to(device))
            zeros = (self.size.layers, 1, len(seeds), outputs)
            found.append(torch.zeros(zeros, dtype=torch.float32, device=device))
        return found

    def scores(self, states: torch.Tensor, parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        """Returns scores of the classes before the softmax, [layers, spans, groups, classes], of standardised states [spans,
        layers, hidden]."""
        return _chain(states.transpose(0, 1), parameters)


class Mix(FeedForward):
    """Probes of mixes of layers: gamma sum_l softmax(a)_l h_l (Tenney, Das and Pavlick 2019, section 3).

    The mix of number k is of the first k + 1 layers; the first parameter is a, [mixes, states, groups, 1], the second gamma,
    [mixes, 1, groups, 1].
    """

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self.penalised = [False, False, *self.penalised]
        self.rates = [MIX_RATE, MIX_RATE, *self.rates]

    def initial(self, seeds: Sequence[int], device: torch.device) -> list[torch.Tensor]:
        even = torch.zeros((self.size.layers, self.size.states, len(seeds), 1), dtype=torch.float32, device=device)
        return [even, torch.ones_like(even[:, :1]), *super().initial(seeds, device)]

    def scores(self, states: torch.Tensor, parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        mixing, scale, *others = parameters
        shares = mixing_shares(mixing, self.size.first_layer)
        shares = (shares * scale)[..., 0].transpose(1, 2)  # [mixes, groups, states]
        mixed = shares.flatten(0, 1) @ states.transpose(0, 1).flatten(1)
        return _chain(mixed.view(*shares.shape[:2], len(states), self.size.hidden), others)


def mixing_shares(mixing: torch.Tensor, first: int) -> torch.Tensor:
    """Returns the share of each layer in each mix, of number `first` and the following ones, [mixes, states, groups, 1]: 0 for
    layers above those of the mix."""
    layers = torch.arange(mixing.shape[1], dtype=torch.int64, device=mixing.device)
    mixes = torch.arange(first, first + len(mixing), dtype=torch.int64, device=mixing.device)
    above = layers[None] > mixes[:, None]
    return mixing.masked_fill(above[:, :, None, None], -math.inf).softmax(dim=1)


def _generator(seed: int, layer: int) -> torch.Generator:
    """Returns what draws the parameters of a seed's probe of the layer with this index."""
    (drawn,) = np.random.SeedSequence([seed, layer]).generate_state(1, np.uint64).tolist()
    return torch.Generator("cpu").manual_seed(drawn % 2**63)


def _drawn(inputs: int, outputs: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn((inputs, outputs), generator=generator, dtype=torch.float32, device="cpu")


def kind_of(size: Size) -> FeedForward:
    return Mix(size) if size.mix else FeedForward(size)


def _chain(inputs: torch.Tensor, parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns relu(inputs W + b) V + c and so on, [layers, spans, groups, outputs]."""
    found = _product(inputs, *parameters[:2])
    for index in range(2, len(parameters), 2):
        found = _product(found.relu().transpose(1, 2), *parameters[index : index + 2])
    return found


def _product(inputs: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
    """Returns products, [layers, spans, groups, outputs], of inputs that all groups share, [layers, spans, inputs], or of each
    group's own, [layers, groups, spans, inputs]."""
    if inputs.dim() == 3:
        joined: torch.Tensor = torch.baddbmm(biases.flatten(2), inputs, weights.flatten(2))
        return joined.reshape((*joined.shape[:2], *weights.shape[2:]))
    return (inputs @ weights.transpose(1, 2)).transpose(1, 2) + biases
