"""The words of a corpus at which units of a model are largest, and words drawn by chance beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt

from bertscope.errors import invalid_argument
from bertscope.questions.representations.context_arrays import Found, UnitArrays, merged
from bertscope.values.columns import named
from bertscope.values.display import ShownAsTable, counted, record
from bertscope.values.documents import fields_of
from bertscope.values.merging import require_same, same_weights
from bertscope.values.positions import Span
from bertscope.values.results import Provenance
from bertscope.values.validation import TextOrPair

__all__ = ["ContextUnit", "Contexts", "Place", "UnitContexts"]

TENTHS = 10
COLUMNS = (
    "unit", "rank", "tenth", "value", "word", "partner", "text_index", "start", "end", "partner_start", "partner_end", "text"
)  # fmt: skip


class ContextUnit(NamedTuple):
    """A head, a neuron or a direction.

    >>> str(ContextUnit("head", 4, 10)), str(ContextUnit("direction", 3, 0, "code:3:217"))
    ('head:4:10', 'code:3:217')
    """

    kind: str
    """"head", "neuron" or "direction"."""
    layer: int
    """Its layer; of a direction that of its site."""
    number: int
    """Number of the head or neuron; of a direction its index among those that were given."""
    name: str = ""
    """Name of the direction."""

    def __str__(self) -> str:
        return self.name or f"{self.kind}:{self.layer}:{self.number}"


@record
class Place:
    """A word at which a unit has a value, and of a head its partner, the word that it attends to there."""

    text_index: int
    """Index of the text in the corpus."""
    text: TextOrPair
    """The text, or the pair."""
    span: Span
    """The word."""
    value: float
    """The value there: of a head a weight, 0 to 1; of a neuron its activation; of a direction a product or a cosine."""
    partner_span: Span | None = None
    """The partner; None for other units than heads."""

    @property
    def word(self) -> str:
        """The word, as the text has it."""
        return self._written(self.span)

    @property
    def partner(self) -> str | None:
        """The partner, as the text has it."""
        return None if self.partner_span is None else self._written(self.partner_span)

    def _written(self, span: Span) -> str:
        text = self.text if isinstance(self.text, str) else self.text[span.segment]
        return text[span.start : span.end]


@record(eq=False)
class UnitContexts:
    """The contexts of one unit."""

    unit: ContextUnit
    """The unit."""
    best: tuple[Place, ...]
    """The places with the largest values, descending; equal ones in the order of the corpus."""
    sample: tuple[Place, ...]
    """Places drawn by chance among all, the same ones for all units, in the order in which they were drawn."""
    count: int
    """All places."""
    mean: float
    """The mean value over all places; NaN without any."""
    deviation: float
    """The standard deviation over all places."""
    edges: tuple[float, ...]
    """The edges between the bins of the histogram."""
    histogram: tuple[int, ...]
    """Places in each bin: below the first edge, between two (the lower one included), from the last one on."""

    @property
    def tenths(self) -> tuple[tuple[Place, ...], ...]:
        """The sample, ascending by value, in ten parts of as many places, the lowest tenth first: what the unit does where it
        is not at its largest."""
        ascending = sorted(self.sample, key=lambda place: place.value)
        ends = [round(len(ascending) * part / TENTHS) for part in range(TENTHS + 1)]
        return tuple(tuple(ascending[begin:end]) for begin, end in pairwise(ends))


class Contexts(Sequence[UnitContexts], ShownAsTable):
    """The contexts of all units of a search: a sequence in the order of heads, neurons and directions. A unit is found by its
    index, or by its name: `found["head:4:10"]`, `found["neuron:3:217"]`, `found["plural"]`."""

    _table = named(*COLUMNS)

    def __init__(
        self,
        found: Found,
        *,
        names: Sequence[tuple[str, int]],
        best: int,
        sample: int,
        texts: int,
        tokens: int,
        truncated_texts: int,
        skipped_pairs: int,
        provenance: Provenance,
        asked: str = "",
        ranges: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Made by `Client.find_contexts` and `merge`. `names`: name and layer of each direction. `asked`: the same for searches
        that were asked the same. `ranges`: the numbers of the texts, first and one past the last, ascending."""
        self._found, self._directions = found, tuple(names)
        self.best, self.sample = best, sample
        self.texts, self.tokens, self.truncated_texts, self.skipped_pairs = texts, tokens, truncated_texts, skipped_pairs
        self.provenance = provenance
        self._asked, self._ranges = asked, tuple(ranges)
        self._places = [(arrays, row) for arrays in found.sets for row in range(len(arrays.units))]
        self.units: tuple[ContextUnit, ...] = tuple(self._unit(arrays, row) for arrays, row in self._places)
        self._indices = {str(unit): index for index, unit in enumerate(self.units)}

    def _unit(self, arrays: UnitArrays, row: int) -> ContextUnit:
        number = int(arrays.units[row])
        if arrays.kind != "direction":
            return ContextUnit(arrays.kind, arrays.layer, number)
        index = int(arrays.directions[row])
        name, layer = self._directions[index]
        return ContextUnit("direction", layer, index, name)

    def __len__(self) -> int:
        return len(self.units)

    def _kept(self) -> tuple[Found, dict[str, Any]]:
        """Returns what a file of them keeps: what was found, and the rest in JSON types but for the provenance."""
        about = {"names": self._directions, "asked": self._asked, "ranges": self._ranges}
        return self._found, about | {name: getattr(self, name) for name in ("best", "sample", *SUMS)}

    def _heading(self) -> str:
        return f"<Contexts of {counted('unit', len(self))} in {counted('text', self.texts)}, {self.provenance.model}>"

    @overload
    def __getitem__(self, index: int | str) -> UnitContexts: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[UnitContexts, ...]: ...

    def __getitem__(self, index: int | str | slice) -> UnitContexts | tuple[UnitContexts, ...]:
        if isinstance(index, slice):
            return tuple(map(self._read, range(len(self))[index]))
        if isinstance(index, str):
            if index not in self._indices:
                few = ", ".join(map(str, self.units[:3]))
                raise invalid_argument(
                    "index", f"is {index!r}, which was not searched for; this has {len(self)} units: {few} ..."
                )
            index = self._indices[index]
        return self._read(range(len(self))[index])

    def _read(self, index: int) -> UnitContexts:
        arrays, row = self._places[index]
        places = self._found.places[arrays.places]
        count = places.count
        mean = float(arrays.sums[row]) / count if count else math.nan
        variance = float(arrays.squares[row]) / count - mean**2 if count else math.nan
        sampled = self._shown(arrays.sample_values[row], places.words, arrays.partners_of_sample(row, places))
        return UnitContexts(
            self.units[index],
            tuple(self._shown(arrays.best_values[row], arrays.best_words[row], arrays.partners_of_best(row))),
            tuple(sampled),
            count,
            mean,
            math.sqrt(max(variance, 0.0)) if count else math.nan,
            tuple(arrays.edges.tolist()),
            tuple(arrays.histograms[row].tolist()),
        )

    def _shown(
        self, values: npt.NDArray[np.float32], words: npt.NDArray[np.int64], partners: npt.NDArray[np.int64] | None
    ) -> list[Place]:
        return [
            Place(
                *self._found.text_and_span(int(word)),
                float(value),
                None if partners is None else self._found.text_and_span(int(partners[index]))[2],
            )
            for index, (value, word) in enumerate(zip(values.tolist(), words.tolist(), strict=True))
        ]

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Returns the contexts of a corpus from those of its parts, each searched with its own `first_index`, on any servers.

        Best places and samples are exactly those of one search, as far as values are the same alone and in any batch (1e-5).
        Raises InvalidArgument for parts that were asked something else or have texts of the same numbers, and
        FailedPrecondition for other weights.
        """
        parts = [*parts]
        provenance = same_weights(part.provenance for part in parts)
        require_same(parts, ("best", "sample", "units"))
        first = parts[0]
        for index, part in enumerate(parts):
            if part._asked != first._asked:
                told = "has another seed, other words or pieces, another relation or other interventions than parts[0]"
                raise invalid_argument(f"parts[{index}]", f"{told}; merge parts of one search")
        return cls(
            merged([part._found for part in parts], first.best, first.sample),
            names=first._directions,
            best=first.best,
            sample=first.sample,
            provenance=provenance,
            asked=first._asked,
            ranges=_joined([part._ranges for part in parts]),
            **{name: sum(getattr(part, name) for part in parts) for name in SUMS},
        )

    def rows(self, units: Sequence[str | int] | None = None) -> Iterator[dict[str, object]]:
        """Yields a row for each place of some units, all unless given: best places with their rank from 1, then the sample with
        its tenth, 1 the lowest."""
        for index in range(len(self)) if units is None else units:
            one = self[index]
            for rank, place in enumerate(one.best, start=1):
                yield _row(one.unit, place, rank, None)
            for tenth, places in enumerate(one.tenths, start=1):
                for place in places:
                    yield _row(one.unit, place, None, tenth)

    def _rows(self) -> Iterator[tuple[object, ...]]:
        return (tuple(row.values()) for row in self.rows())


def document(found: Contexts) -> dict[str, Any]:
    """Returns what was found as one JSON document: of each unit its numbers, best places and tenths."""
    units = [
        {
            "unit": str(one.unit),
            "places": one.count,
            **fields_of(one, "mean", "deviation", "edges", "histogram"),
            "best": [fields_of(place, *PLACE) for place in one.best],
            "tenths": [[fields_of(place, *PLACE) for place in places] for places in one.tenths],
        }
        for one in found
    ]
    source = found.provenance
    return {"model": source.model, "weights": source.weights_digest, **fields_of(found, *SUMS), "units": units}


def _joined(parts: Sequence[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Returns the ranges of all parts, neighbours as one. Raises InvalidArgument for parts that share a number."""
    rows = sorted((begin, end, index) for index, ranges in enumerate(parts) for begin, end in ranges)
    found = list[tuple[int, int]]()
    for (begin, end, index), before in zip(rows, [None, *rows], strict=False):
        if before is not None and begin < before[1]:
            told = f"has {_range(begin, end)}, and parts[{before[2]}] {_range(*before[:2])}"
            raise invalid_argument(f"parts[{index}]", f"{told}; search each part with its own `first_index`")
        if found and found[-1][1] == begin:
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return found


def _range(begin: int, end: int) -> str:
    return f"texts {begin} to {end - 1}" if end - begin > 1 else f"text {begin}"


PLACE = ("text_index", "text", "word", "span", "partner", "partner_span", "value")
SUMS = ("texts", "tokens", "truncated_texts", "skipped_pairs")


def _row(unit: ContextUnit, place: Place, rank: int | None, tenth: int | None) -> dict[str, object]:
    partner = place.partner_span
    values = (
        str(unit), rank, tenth, place.value, place.word, place.partner, place.text_index, place.span.start, place.span.end,
        None if partner is None else partner.start, None if partner is None else partner.end, place.text,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))
