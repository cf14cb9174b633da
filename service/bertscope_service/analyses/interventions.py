"""The contributions that replace heads' own contexts, and their conversion to gates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from bertscope_service.encoders.base import HeadSet
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sites import Change


class Mode(Enum):
    """The replacement for a head's context; see bertscope.v1.HeadIntervention.Mode."""

    ZERO = "zero"
    UNIFORM = "uniform"
    MEAN = "mean"
    SCALE = "scale"


@dataclass(frozen=True, eq=False)
class Interventions:
    """The contribution of every head, in three arrays [layers, heads]. (1, False, False) leaves a head untouched.

    keep: the share of its own context that it keeps. uniform: it attends to all tokens equally instead. mean: it contributes
    its mean context over reference texts. changes: those at other sites, in order.
    """

    keep: NDArray[np.float32]
    uniform: NDArray[np.bool_]
    mean: NDArray[np.bool_]
    changes: tuple[Change, ...] = ()

    @classmethod
    @cache
    def none(cls, layers: int, heads: int) -> Interventions:
        """Returns the interventions that leave every head untouched; the same ones for every call."""
        shape = (layers, heads)
        arrays = np.ones(shape, np.float32), np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        for array in arrays:
            array.flags.writeable = False
        return cls(*arrays)

    @cached_property
    def needs_means(self) -> bool:
        """True if any head contributes its mean context."""
        return bool(self.mean.any())

    @cached_property
    def untouched(self) -> bool:
        """True if every head contributes its own context, and nothing changes elsewhere."""
        return not (self.changes or self.needs_means or self.uniform.any() or (self.keep != 1).any())

    def change(self, heads: HeadSet, mode: Mode, scale: float = 1.0) -> Interventions:
        """Returns a copy with some heads changed, whatever they contributed before. `scale` is for Mode.SCALE."""
        changed = replace(self, keep=self.keep.copy(), uniform=self.uniform.copy(), mean=self.mean.copy())
        for layer, numbers in heads:
            which = list(numbers)
            changed.keep[layer, which] = scale if mode is Mode.SCALE else 0.0
            changed.uniform[layer, which] = mode is Mode.UNIFORM
            changed.mean[layer, which] = mode is Mode.MEAN
        return changed

    def at_sites(self, changes: tuple[Change, ...]) -> Interventions:
        """Returns a copy with changes at other sites, after those it has."""
        return replace(self, changes=self.changes + changes) if changes else self

    def edits(self, means: NDArray[np.float32] | None = None) -> Edits | None:
        """Returns the edits, None if nothing is touched. means: [layers, heads, head_size], needed if `mean` marks any head."""
        if self.untouched:
            return None
        constant = {}
        if self.needs_means:
            if means is None:
                raise ValueError("mean ablation without mean contexts")
            for layer in np.flatnonzero(self.mean.any(axis=1)).tolist():
                constant[layer] = np.where(self.mean[layer][:, None], means[layer], np.float32(0))
        return Edits(self.keep, self.uniform.astype(np.float32), constant, self.changes)
