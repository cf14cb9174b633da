"""Attention of protein models against contact maps: which heads attend to residues that touch (Vig et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertscope.errors import invalid_argument
from bertscope.questions.attention.maps import AttentionMaps
from bertscope.questions.attention.marked_texts import RelationText
from bertscope.values import validation
from bertscope.values.display import ShownAsTable, data_frame, record
from bertscope.values.kept_arrays import kept_file, read_npy
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ContactScores", "contact_relations", "read_contacts"]

THRESHOLD, MIN_SEPARATION, DISTANCE = 0.3, 6, 8.0
MAP_BYTES = 128 * 1024 * 1024
"""The most bytes of maps that are requested at a time."""
RELATION = "contact"
COLUMNS = ["layer", "head", "share", "attended", "weight_share"]


@record(eq=False)
class ContactScores(ShownAsTable):
    """How much of each head's attention falls on residues in contact. Pairs of residues closer in the sequence than
    `min_separation` count for nothing."""

    sequence: str
    """One-letter codes, without spaces."""
    share: NDArray[np.float64]
    """Share of the pairs with attention over the threshold that are in contact, [layers, heads], 0 to 1 (Vig et al. 2021,
    section 3); NaN where no pair has so much."""
    attended: NDArray[np.int64]
    """Number of pairs with attention over the threshold, [layers, heads]; few say little of a head."""
    weight_share: NDArray[np.float64]
    """Share of the weight between such pairs that falls on contacts, [layers, heads], 0 to 1."""
    base_rate: float
    """Share of such pairs that are in contact: what attention to any of them alike would give."""
    threshold: float
    """A weight over it counts as attention."""
    min_separation: int
    """Least distance of two residues in the sequence."""
    provenance: Provenance
    """Where the maps come from."""

    def best(self, count: int = 10) -> list[tuple[int, int]]:
        """Returns (layer, head) of the heads with the highest share, best first; heads without any attended pair come never.

        They are chosen on this sequence: in others their shares are lower."""
        shares = np.where(np.isnan(self.share), -1.0, self.share)
        order = np.argsort(-shares, axis=None, kind="stable")[: validation.positive("count", count)]
        places = [divmod(int(place), self.share.shape[1]) for place in order]
        return [place for place in places if shares[place] >= 0]

    def columns(self) -> dict[str, list[Any]]:
        """Returns a table with a row for each head: layer, head, share, attended pairs, share of the weight."""
        layers, heads = np.indices(self.share.shape)
        values = (layers, heads, self.share, self.attended, self.weight_share)
        return {name: value.ravel().tolist() for name, value in zip(COLUMNS, map(np.asarray, values), strict=True)}

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each head. Needs pandas."""
        return data_frame(self.columns(), COLUMNS)


def read_contacts(path: str | PathLike[str], *, distance: float = DISTANCE) -> NDArray[np.bool_]:
    """Reads a contact map, bool [L, L], from a matrix of 0 and 1, or of distances in angstrom, less than `distance` apart.

    The file is .npy, .csv (commas) or .tsv (tabs), without names of rows or columns. A matrix of nothing but 0 and 1 is one of
    contacts; NaN, as of residues that were not resolved, is no contact. Raises OSError, or InvalidArgument for another format.
    """
    path = Path(path)
    suffix, most = path.suffix.lower(), validation.finite_number("distance", distance)
    if suffix not in (".npy", ".csv", ".tsv"):
        raise invalid_argument(str(path), "the name must end with .npy, .csv or .tsv")
    with path.open("rb") as file, kept_file(path, "is not a contact map", "is not a matrix of numbers"):
        if suffix == ".npy":
            values = read_npy(file, path.stat().st_size, "the matrix")
        else:
            values = np.loadtxt(file, delimiter="," if suffix == ".csv" else "\t", ndmin=2, encoding="utf-8-sig")
        values = values.astype(np.float64)
    if not np.isin(values, (0.0, 1.0)).all():
        with np.errstate(invalid="ignore"):
            values = values < most
    return contact_map(values, str(path))


def contact_map(contacts: ArrayLike, field: str = "contacts") -> NDArray[np.bool_]:
    """Returns contacts as bool [L, L], symmetric. Raises InvalidArgument for anything but a square matrix of 0 and 1 that is as
    its transpose."""
    values = np.asarray(contacts)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise invalid_argument(field, f"must be a square matrix [L, L], not {list(values.shape)}")
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise invalid_argument(field, "must hold 0 and 1; read_contacts makes contacts of distances")
    if (values != values.T).any():
        raise invalid_argument(field, "must be symmetric: residue i touches j as j touches i")
    return values.astype(bool)


def contact_relations(sequence: str, contacts: ArrayLike, *, min_separation: int = MIN_SEPARATION) -> RelationText:
    """Returns contacts as the relation "contact" between residues, for `score_relations`: how often a head attends most to the
    very residue of each pair.

    Raises InvalidArgument for a matrix of another size than the sequence, or without contacts so far apart in it.
    """
    sequence = "".join(validation.text("sequence", sequence).split())
    far = far_contacts(sequence, contacts, min_separation)
    pairs = [(RELATION, int(first), int(second)) for first, second in np.argwhere(np.triu(far))]
    return RelationText(sequence, pairs, [(place, place + 1) for place in range(len(sequence))])


def far_contacts(sequence: str, contacts: ArrayLike, min_separation: int) -> NDArray[np.bool_]:
    """Returns the contacts of residues at least so far apart in the sequence, bool [L, L]."""
    found = contact_map(contacts)
    if len(found) != len(sequence):
        raise invalid_argument("contacts", f"is of {len(found)} residues, and the sequence has {len(sequence)}")
    far = found & separated(len(sequence), min_separation)
    if not far.any():
        raise invalid_argument("contacts", f"has none between residues at least {min_separation} apart in the sequence")
    return far


def separated(length: int, least: int) -> NDArray[np.bool_]:
    """Returns which pairs of residues are at least so far apart in the sequence, bool [L, L]."""
    places = np.arange(length)
    apart: NDArray[np.bool_] = np.abs(places[:, None] - places) >= validation.positive("min_separation", least)
    return apart


def layer_parts(layers: int, heads: int, length: int) -> Iterator[range]:
    """Yields the layers whose maps are requested together: as many as MAP_BYTES hold, or one."""
    count = max(1, MAP_BYTES // (4 * heads * length * length))
    return (range(first, min(first + count, layers)) for first in range(0, layers, count))


def scored_layers(
    maps: AttentionMaps, far: NDArray[np.bool_], apart: NDArray[np.bool_], threshold: float
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yields, for each layer, the share of attended pairs in contact, their number, and the weight's share, each [heads]."""
    places = [place for place, token in enumerate(maps.tokens) if not token.special]
    if len(places) != len(far):
        raise invalid_argument(
            "sequence", f"is {len(places)} tokens to this model, not {len(far)}; ask one that reads a residue as a token"
        )
    for layer in maps.attention:
        weights = np.where(apart, layer[:, places][:, :, places].astype(np.float64), 0.0)
        high = weights > threshold
        attended, total = high.sum(axis=(1, 2)), weights.sum(axis=(1, 2))
        with np.errstate(invalid="ignore"):
            yield (high & far).sum(axis=(1, 2)) / attended, attended, (weights * far).sum(axis=(1, 2)) / total
