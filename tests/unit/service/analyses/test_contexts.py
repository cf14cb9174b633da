"""The largest values of units, of batches in any order, against a full sort; and histograms at the edges of bins."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.context_places import Sample
from bertscope_service.analyses.contexts import SetSums
from bertscope_service.analyses.observers.context_units import ACTIVATIONS, COSINES, PRODUCTS, WEIGHTS, Bins, UnitKind, UnitSet
from bertscope_service.analyses.observers.contexts import Found, Search, _Batch, largest
from bertscope_service.encoders.sites import Site
from bertscope_service.errors import FailedPrecondition

LEVELS = np.float32([-3, -0.5, -1e-30, -0.0, 0.0, 1e-30, 0.25, 2, np.nextafter(np.float32(2), np.float32(3))])
PLACES, UNITS, BEST = 200, 7, 9


def drawn(seed: int, levels: int) -> Any:
    """Values of few levels, so that many are equal, [places, units]."""
    draw = np.random.default_rng(seed)
    return LEVELS[draw.integers(len(LEVELS) - levels, len(LEVELS), size=(PLACES, UNITS))]


def sorted_places(values: Any, best: int) -> list[list[int]]:
    """The places of the largest values of each unit, of equal ones the first."""
    return [sorted(range(len(own)), key=lambda place: (-own[place], place))[:best] for own in values.T.tolist()]


def histogram_of(bins: Bins, values: Any) -> list[list[int]]:
    """How many values of each unit each bin has."""
    found = np.searchsorted(bins.edges, values.astype(np.float64), side="right")
    return [np.bincount(own, minlength=len(bins)).tolist() for own in found.T]


def test_zeros_of_either_sign_are_equal() -> None:
    values = np.float32([-0.0, 0.0] * 50)[:, None]
    assert sorted(largest(torch.from_numpy(values), 5).tolist()) == [0, 1, 2, 3, 4]


def found_in(search: Search, values: Any, places: Any) -> Found:
    """What a batch gives, with the largest values as the observer finds them."""
    of: Any = SimpleNamespace(_search=search)
    tensor = torch.from_numpy(values)
    flat = _Batch._largest(of, 0, tensor).numpy()
    nothing, none = np.zeros((0, values.shape[1]), np.float32), np.zeros(0, np.int64)
    counted = ACTIVATIONS.count(tensor, tensor.clone()).numpy()
    sums = np.stack([values.sum(axis=0), (values**2).sum(axis=0)])
    return Found(sums, counted, flat, values.ravel()[flat], none, nothing, none, none, places)


@pytest.mark.parametrize("batch", [1, 40, PLACES])
@pytest.mark.parametrize("levels", [2, 9])
def test_batches_in_any_order_give_a_full_sort(levels: int, batch: int) -> None:
    """With bounds that rise meanwhile; the rest of a batch's values at the bound count, too."""
    values = drawn(levels + 10 * batch, levels)
    order = np.random.default_rng(batch).permutation(PLACES)
    chosen = UnitSet(UnitKind.ACTIVATION, 0, 0, np.arange(UNITS), True, ACTIVATIONS, (Site.ACTIVATIONS, 0))
    none = np.zeros(0, np.int64)
    sums = SetSums(chosen, BEST, Sample(PLACES, none, none, none.astype(np.uint64)))
    search = Search([chosen], BEST, [np.full(UNITS, -np.inf, np.float32)])
    for begin in range(0, PLACES, batch):
        rows = np.sort(order[begin : begin + batch])
        before = search.bounds[0].copy()
        sums.add(found_in(search, values[rows], rows), search.bounds[0])
        assert (search.bounds[0] >= before).all()
    sums.end()
    assert sums.histogram.tolist() == histogram_of(ACTIVATIONS, values)
    assert sums.places.tolist() == sorted_places(values, BEST)
    np.testing.assert_array_equal(sums.values, np.take_along_axis(values, sums.places.T, axis=0).T)
    if batch < 40:
        assert (search.bounds[0] > -np.inf).all()


def test_values_that_are_not_finite_end_the_search() -> None:
    chosen = UnitSet(UnitKind.ACTIVATION, 0, 0, np.arange(UNITS), True, ACTIVATIONS, (Site.ACTIVATIONS, 0))
    none = np.zeros(0, np.int64)
    sums = SetSums(chosen, BEST, Sample(PLACES, none, none, none.astype(np.uint64)))
    for wrong in (np.nan, np.inf):
        values = drawn(1, 9)
        values[5, 3] = wrong
        search = Search([chosen], BEST, [np.full(UNITS, -np.inf, np.float32)])
        with pytest.raises(FailedPrecondition) as caught:
            sums.add(found_in(search, values, np.arange(PLACES)), search.bounds[0])
        assert caught.value.reason == "STATES_NOT_FINITE"


@pytest.mark.parametrize(
    "bins", [WEIGHTS, ACTIVATIONS, COSINES, PRODUCTS], ids=["weights", "activations", "cosines", "products"]
)
def test_a_value_counts_in_the_bin_that_begins_at_or_before_it(bins: Bins) -> None:
    """Also the number right below an edge, the smallest ones, and those far outside."""
    edges = bins.edges.astype(np.float32)
    values = [*edges, *np.nextafter(edges, np.float32(-np.inf)), *np.nextafter(edges, np.float32(np.inf))]
    values += [-1e-30, 0.0, -0.0, 1e-30, 1e9, -1e9, 1e30, -1e30]
    given = np.float32(values)
    both = np.stack([given, -given], axis=1)
    found, wanted = bins.count(torch.from_numpy(both), torch.empty(both.shape)).numpy(), histogram_of(bins, both)
    for unit in range(2):
        assert np.bincount(found[:, unit], minlength=len(bins)).tolist() == wanted[unit]
