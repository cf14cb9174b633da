"""The changes of a request at the sites of a model, before and after what they need has run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Change, Codes, Finder, Place, Positions, Site


@dataclass(frozen=True, slots=True, eq=False)
class SourceRun:
    """The run that vectors of a change are taken from.

    model: its name. sequence: its tokens. edits: its own changes. place: the site and layer. positions: those of its vectors,
    None for all.
    """

    model: str
    sequence: TokenSequence
    edits: Edits | None
    place: Place
    positions: Finder | None

    def chosen(self) -> NDArray[np.int64]:
        """Returns the positions of the vectors. Raises InvalidArgument if the text does not have them."""
        if self.positions is None:
            return np.arange(len(self.sequence), dtype=np.int64)
        return self.positions(self.sequence, {})


@dataclass(frozen=True, slots=True, eq=False)
class PlannedChange:
    """A change, as far as it is known before anything has run.

    unit_size: numbers of a unit. source: where its vectors come from. mean: they are the mean over reference texts. strength:
    the norm of `change.add`, a direction, in mean norms over reference texts.
    """

    change: Change
    unit_size: int
    source: SourceRun | None = None
    mean: bool = False
    strength: float | None = None

    @property
    def needs_references(self) -> bool:
        return self.mean or self.strength is not None

    @property
    def place(self) -> Place:
        return self.change.site, self.change.layer

    def of_references(self, mean: NDArray[np.float32], norm: float) -> Change:
        """Returns the change with what reference texts give: the mean vector, [size], and the mean norm."""
        if self.mean:
            return self.with_vectors(mean)
        direction = self.change.add
        if self.strength is None or direction is None:
            raise ValueError("a change that needs no reference texts")
        length = float(np.linalg.norm(direction.astype(np.float64)))
        return replace(self.change, add=(direction * (self.strength * norm / length)).astype(np.float32))

    def with_vectors(self, vectors: NDArray[np.float32]) -> Change:
        """Returns the change that puts whole vectors, [..., size], in place of those that are there."""
        units = self.change.units
        if units is not None:
            by_unit = vectors.reshape(*vectors.shape[:-1], -1, self.unit_size)
            vectors = np.ascontiguousarray(by_unit[..., units, :]).reshape(*vectors.shape[:-1], -1)
        return replace(self.change, keep=0.0, add=vectors)


def codes_change(
    layer: int, positions: Positions, codes: Codes, mean: NDArray[np.float32], *, factor: float, replaced: bool
) -> Change:
    """Returns the change of states by sparse codes, around a mean [size]; see bertscope.v1.CodesChange."""
    gained = replace(codes, gain=factor if replaced else factor - 1)
    keep, add = (0.0, mean) if replaced else (1.0, None)
    return Change(Site.STATE, layer, positions, keep=keep, add=add, codes=gained)


def places_of(changes: Sequence[PlannedChange]) -> tuple[Place, ...]:
    """Returns the places of changes that reference texts give a vector or a norm, each once."""
    return tuple(dict.fromkeys(one.place for one in changes if one.needs_references))
