"""Attention of protein models against contact maps: which heads attend to residues that touch (Vig et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from bertscope import Client, InvalidReply, Model
from bertscope.errors import invalid_argument
from bertscope.questions.attention.maps import AttentionMaps
from bertscope.questions.attention.marked_texts import RelationText
from bertscope.values import validation
from bertscope.values.columns import Column
from bertscope.values.display import ShownAsTable, record
from bertscope.values.interventions import Interventions
from bertscope.values.kept_arrays import kept_file, read_npy
from bertscope.values.results import Provenance
from bertscope.values.validation import residues_of
from numpy.typing import ArrayLike, NDArray

__all__ = ["ContactScores", "contact_relations", "read_contacts", "score_contacts"]

THRESHOLD, MIN_SEPARATION, DISTANCE = 0.3, 6, 8.0
MAP_BYTES = 128 * 1024 * 1024
"""The most bytes of maps that are requested at a time."""
RELATION = "contact"


@record(eq=False)
class ContactScores(ShownAsTable):
    """How much of each head's attention falls on residues in contact. Pairs of residues closer in the sequence than
    `min_separation` count for nothing."""

    _table = (
        Column("layer"),
        Column("head"),
        Column("share", "in contact", ".1%"),
        Column("attended", "attended pairs"),
        Column("weight_share", "weight on contacts", ".1%"),
    )

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

    def _rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each head: layer, head, share, attended pairs, share of the weight."""
        numbers = self.share, self.attended, self.weight_share
        return [(*place, *(each[place].item() for each in numbers)) for place in np.ndindex(*self.share.shape)]


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


def score_contacts(
    client: Client,
    sequence: str,
    contacts: ArrayLike,
    *,
    threshold: float = THRESHOLD,
    min_separation: int = MIN_SEPARATION,
    model: str | Model | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    timeout: float | None = None,
) -> ContactScores:
    """Scores how much of each head's attention falls on residues in contact (Vig et al. 2021, section 3): the share of the
    pairs with attention over `threshold` that touch, and the share of all the weight.

    `contacts` is 0 or 1 for each pair of residues, [L, L], as `read_contacts` gives it; pairs less than `min_separation`
    apart in the sequence are left out. The maps travel some layers at a time, each time running the model once;
    `timeout` holds for each. Raises InvalidArgument for contacts of another size than the sequence, or none so far apart.
    """
    residues, limit = residues_of(sequence), validation.finite_number("threshold", threshold)
    far, apart = far_contacts(residues, contacts, min_separation), separated(len(residues), min_separation)
    asked = client.get_model(model, timeout=timeout)
    found, source = list[tuple[NDArray[Any], ...]](), None
    for layers in layer_parts(asked.layers, asked.heads, len(residues)):
        with closing(
            client.extract_attention(
                [residues],
                model=asked.name,
                layers=layers,
                interventions=interventions,
                reference_texts=reference_texts,
                timeout=timeout,
            )
        ) as answers:
            for maps in answers:
                if source is not None and maps.provenance.weights_digest != source.weights_digest:
                    raise InvalidReply("the model was replaced between two layers; ask again")
                found += scored_layers(maps, far, apart, limit)
                source = maps.provenance
    if source is None:
        raise InvalidReply("the server sent no attention maps")
    share, attended, weights = (np.array(values) for values in zip(*found, strict=True))
    rate = float(far.sum() / apart.sum())
    return ContactScores(residues, share, attended, weights, rate, limit, min_separation, source)
