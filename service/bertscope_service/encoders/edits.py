"""Defines what is changed inside a model while a row runs: gates of heads, and changes of vectors at its sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.site_edits import SiteEdits, Watcher
from bertscope_service.encoders.sites import Change, Found, Place, Site


@dataclass(frozen=True, slots=True, eq=False)
class Edits:
    """The changes of one row. First those of its heads: context := keep * (A V) + uniform * mean(V) + constant, before the
    output projection; then `changes`, in order.

    `keep` and `uniform` are float32 [layers, heads]; the mean is over the row's real tokens. (1, 0) leaves a head untouched,
    (0, 0) is zero ablation, (0, 1) replaces its attention by a = 1/L (Kovaleva et al. 2019, section 4.6), any other `keep`
    scales. `constant` holds float32 [heads, head_size] for the layers that have one: mean ablation.

    A change of Site.STATE happens when the row arrives before its layer, so a kept state has it already; `entering` are changes
    of the state that a row continues from.
    """

    keep: NDArray[np.float32]
    uniform: NDArray[np.float32]
    constant: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    entering: tuple[Change, ...] = ()
    placed: bool = False
    """True once the positions of all changes are found in the row's sequence."""

    @property
    def to_place(self) -> int:
        """The number of changes whose positions are still to be found."""
        return 0 if self.placed else len(self.changes) + len(self.entering)

    def at(self, sequence: TokenSequence) -> Edits:
        """Returns the edits with the positions of all changes in a sequence. Raises InvalidArgument."""
        if not self.to_place:
            return self
        found: Found = {}
        changes, entering = (tuple(one.at(sequence, found) for one in each) for each in (self.changes, self.entering))
        return replace(self, changes=changes, entering=entering, placed=True)


@dataclass(slots=True)
class BatchEdits:
    """The edits of a batch on its device: `keep` and `uniform` are [rows, layers, heads] in the model's number format.

    `layers` names the layers in which any row has a gate that is not (1, 0), `uniform_layers` those with a uniform one; all
    other layers run as if there were no gates. `constant` is [rows, heads, head_size] for the layers that have one. `sites` are
    the changes at other places, None if there are none.
    """

    keep: torch.Tensor
    uniform: torch.Tensor
    layers: frozenset[int]
    uniform_layers: frozenset[int]
    constant: Mapping[int, torch.Tensor] = field(default_factory=dict)
    sites: SiteEdits | None = None

    @property
    def first(self) -> int | None:
        """The first layer whose run may differ from that of an untouched row; None if there is none."""
        layers = set(self.layers)
        if self.sites is not None:
            layers |= {max(0, layer - 1) if site is Site.STATE else layer for site, layer in self.sites.places}
        return min(layers, default=None)

    def watching(self, watchers: Mapping[Place, Watcher]) -> BatchEdits:
        """Returns the same edits, with functions that receive the vectors of some places after all changes."""
        return replace(self, sites=replace(self.sites or SiteEdits(), watchers=watchers))
