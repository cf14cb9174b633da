"""Kinds of probes: their parameters and what they compute, for all layers and groups (a task and a seed) at once.

Parameters are float32 [layers, inputs, groups, outputs]; each group's are drawn by its seed and share nothing with another's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

MIN_BATCH, MAX_BATCH, MIN_BATCHES = 8, 256, 50
"""Spans in a step: an epoch has at least MIN_BATCHES of them, unless they would be too small."""
EVALUATED = 256
"""Spans that are evaluated in a step, unless one of training has more."""
STEP_PRODUCTS = 200_000_000
"""The most multiplications of a step's product, some milliseconds on a CPU, unless MIN_BATCH spans take more."""
MAX_RATE = 0.05
"""The highest learning rate of weights; it is 1 / inputs otherwise."""
MIX_RATE = 0.01
"""The learning rate of mixing weights."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a training: layers, length of a state, probes of a layer (groups), and classes. units: those of the hidden
    layer, 0 without one. mix: the probes read mixes of layers."""

    layers: int
    hidden: int
    groups: int
    classes: int
    units: int = 0
    mix: bool = False

    def batch(self, items: int, batches: int = MIN_BATCHES, limit: int = MAX_BATCH) -> int:
        """Returns the spans in a step, at most `limit`, so that an epoch has at least `batches` of them."""
        outputs = self.units or self.classes
        products = self.hidden * (outputs + self.layers * self.mix) + self.units * self.classes
        most = STEP_PRODUCTS // (self.layers * self.groups * products)
        return max(MIN_BATCH, min(limit, most, items // batches))

    def bytes(self, batch: int, copies: int) -> int:
        """Returns the memory that training in steps of `batch` spans takes beside the states, approximately; `copies` tensors
        are as large as the weights."""
        weights = (self.hidden + 1) * (self.units or self.classes) + (self.units + 1) * self.classes * (self.units > 0)
        probes = self.layers * self.groups * (weights + self.layers * self.mix)
        values = 2 * self.hidden + self.groups * (4 * self.classes + 3 * self.units + 3 * self.hidden * self.mix)
        return 4 * (copies * probes + max(batch, EVALUATED) * self.layers * values)


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
        generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        found: list[torch.Tensor] = []
        for inputs, outputs in self.shapes:
            shape = (self.size.layers, inputs, outputs)
            drawn = [torch.randn(shape, generator=own, dtype=torch.float32, device="cpu") for own in generators]
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

    The mix of number k is of the first k + 1 layers; the first parameter is a, [mixes, layers, groups, 1], the second gamma,
    [mixes, 1, groups, 1].
    """

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self.penalised = [False, False, *self.penalised]
        self.rates = [MIX_RATE, MIX_RATE, *self.rates]

    def initial(self, seeds: Sequence[int], device: torch.device) -> list[torch.Tensor]:
        layers, groups = self.size.layers, len(seeds)
        even = torch.zeros((layers, layers, groups, 1), dtype=torch.float32, device=device)
        return [even, torch.ones_like(even[:, :1]), *super().initial(seeds, device)]

    def scores(self, states: torch.Tensor, parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        mixing, scale, *others = parameters
        shares = (mixing_shares(mixing) * scale)[..., 0].transpose(1, 2)  # [mixes, groups, layers]
        mixed = shares.flatten(0, 1) @ states.transpose(0, 1).flatten(1)
        return _chain(mixed.view(*shares.shape[:2], len(states), self.size.hidden), others)


def mixing_shares(mixing: torch.Tensor) -> torch.Tensor:
    """Returns the share of each layer in each mix, [mixes, layers, groups, 1]: 0 for layers above those of the mix."""
    layers = torch.arange(len(mixing), dtype=torch.int64, device=mixing.device)
    above = layers[None] > layers[:, None]
    return mixing.masked_fill(above[:, :, None, None], -math.inf).softmax(dim=1)


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
