"""Shapley values: closed forms, all orders by brute force, and samples whose sums add up and whose mean is right."""

from itertools import permutations
from math import factorial

import numpy as np
import pytest
from bertscope.values.intervals import mean_intervals
from bertscope_service.analyses.shapley import ExactShapley, Game, Occlusion, SampledShapley, Shares
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def play(game: Game, values: Floats) -> Shares:
    """Divides a game whose value of each set is given by the bits of its number."""
    units = len(game.present(0))
    sets = [int(game.present(row) @ (1 << np.arange(units))) for row in range(game.rows)]
    return game.divide(values[sets])


def random_game(units: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).normal(size=1 << units)


def members(units: int) -> Floats:
    """Which units each set has, 1 or 0 [2^units, units]."""
    return ((np.arange(1 << units)[:, None] >> np.arange(units)) & 1).astype(np.float64)


def by_all_orders(values: Floats, units: int) -> Floats:
    found = np.zeros(units)
    for order in permutations(range(units)):
        there = 0
        for unit in order:
            found[unit] += values[there | (1 << unit)] - values[there]
            there |= 1 << unit
    return found / factorial(units)


@pytest.mark.parametrize("units", [1, 2, 3, 6])
def test_exact_values_are_means_over_all_orders(units: int) -> None:
    values = random_game(units)
    found = play(ExactShapley(units), values)
    np.testing.assert_allclose(found.values, by_all_orders(values, units), rtol=0, atol=1e-12)
    assert found.values.sum() == pytest.approx(values[-1] - values[0], abs=1e-12)
    assert (found.value, found.value_absent) == (values[-1], values[0])


def test_an_additive_game_gives_each_unit_its_own_part_by_every_method() -> None:
    parts = np.array([3.0, -1.5, 0.0, 2.25, 0.5])
    values = 7 + members(5) @ parts
    for game in (ExactShapley(5), SampledShapley(5, range(3), 0), Occlusion(5)):
        np.testing.assert_allclose(play(game, values).values, parts, rtol=0, atol=1e-12)


def test_interactions_are_those_of_the_definition() -> None:
    values, units = random_game(4), 4
    found = play(ExactShapley(units, interactions=True), values).interactions
    assert found is not None
    for first, second in ((0, 1), (1, 3), (2, 0)):
        expected = 0.0
        for without in range(1 << units):
            if without >> first & 1 or without >> second & 1:
                continue
            size = without.bit_count()
            weight = factorial(size) * factorial(units - size - 2) / factorial(units - 1)
            one, other = 1 << first, 1 << second
            both = values[without | one | other] - values[without | one] - values[without | other] + values[without]
            expected += weight * both
        assert found[first, second] == pytest.approx(expected, abs=1e-6)


def test_occlusion_is_what_is_lost_without_each_unit() -> None:
    values = random_game(3)
    found = play(Occlusion(3), values)
    np.testing.assert_array_equal(found.values, values[7] - values[[6, 5, 3]])
    assert (found.value, found.value_absent) == (values[7], values[0])


def test_sums_of_pairs_do_not_depend_on_how_they_are_divided_among_calls() -> None:
    values = random_game(6)
    whole = play(SampledShapley(6, range(12), 5), values)
    parts = [play(SampledShapley(6, pairs, 5), values) for pairs in (range(5), range(5, 12))]
    for name in ("sums", "sums_of_squares"):
        np.testing.assert_allclose(sum(getattr(part, name) for part in parts), getattr(whole, name), rtol=1e-12)
    assert [part.pairs for part in parts] == [5, 7]
    np.testing.assert_allclose(whole.values, whole.sums / 12 if whole.sums is not None else 0, rtol=1e-12)
    assert not np.allclose(whole.values, play(SampledShapley(6, range(12), 6), values).values)


@pytest.mark.parametrize("units", [1, 2])
def test_texts_of_few_units_can_be_sampled(units: int) -> None:
    values = random_game(units)
    found = play(SampledShapley(units, range(2), 0), values)
    np.testing.assert_allclose(found.values, play(ExactShapley(units), values).values, rtol=0, atol=1e-12)


def curved_game(units: int, seed: int) -> Floats:
    """Words that act in pairs, and a score that levels off."""
    draw, there = np.random.default_rng(seed), members(units)
    pairs = np.triu(draw.normal(size=(units, units)), 1)
    inner = there @ draw.normal(size=units) + 0.7 * np.einsum("si,ij,sj->s", there, pairs, there)
    return 5 * np.tanh(inner / 3) + 0.2 * draw.normal(size=1 << units)


@pytest.mark.slow
def test_intervals_of_sampled_values_cover_the_exact_ones() -> None:
    """By simulation: as the client makes them, from sums over pairs, with pairs - 2 degrees of freedom."""
    units, pairs, covered = 8, 10, []
    for number in range(4):
        values = curved_game(units, number)
        exact = play(ExactShapley(units), values).values
        for seed in range(100):
            found = play(SampledShapley(units, range(pairs), seed), values)
            assert found.sums is not None and found.sums_of_squares is not None
            intervals = mean_intervals(found.sums, found.sums_of_squares, pairs, degrees=pairs - 2)
            assert intervals is not None
            covered += [each.low <= value <= each.high for each, value in zip(intervals, exact, strict=True)]
    assert 0.93 <= np.mean(covered) <= 0.97
