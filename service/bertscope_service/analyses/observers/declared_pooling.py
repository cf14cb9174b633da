"""Makes one vector of a text's states as a folder of sentence-transformers declares it, on the device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch

from bertscope_service.checkpoints.declared_pooling import DeclaredPooling, Mode

SHORTEST = 1e-12
"""Vectors are divided by at least this, as `torch.nn.functional.normalize` does."""


@dataclass(frozen=True, slots=True, eq=False)
class WholeText:
    """A text as one unit; the first `left_out` of its tokens are outside means and maxima."""

    declared: DeclaredPooling
    left_out: int = 0
    count: ClassVar[int] = 1

    def join(self, states: torch.Tensor) -> torch.Tensor:
        """Joins states [pieces, size] -> [1, modes * size], float32."""
        states = states.float()
        joined = torch.cat([_MODES[mode](states, min(self.left_out, len(states) - 1)) for mode in self.declared.modes])
        if self.declared.normalised:
            joined = joined / joined.norm().clamp_min(SHORTEST)
        return joined[None]


def _weighted_mean(states: torch.Tensor, begin: int) -> torch.Tensor:
    """The weight of a token is its position, from 1."""
    weights = torch.arange(begin + 1, len(states) + 1, dtype=torch.float32, device=states.device)
    return weights @ states[begin:] / weights.sum()


_MODES: dict[Mode, Callable[[torch.Tensor, int], torch.Tensor]] = {
    Mode.CLS: lambda states, _: states[0],
    Mode.MAX: lambda states, begin: states[begin:].amax(dim=0),
    Mode.MEAN: lambda states, begin: states[begin:].mean(dim=0),
    Mode.MEAN_SQRT_LEN: lambda states, begin: states[begin:].sum(dim=0) / math.sqrt(len(states) - begin),
    Mode.WEIGHTED_MEAN: _weighted_mean,
    Mode.LAST_TOKEN: lambda states, _: states[-1],
}
