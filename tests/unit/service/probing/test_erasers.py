"""The closed forms of erasers: LEACE beside its definition and concept-erasure, INLP's projection, random subspaces."""

import numpy as np
import pytest
import torch
from bertscope_service.probing.erasers import Eraser, Moments, leace, random_subspace, with_probe
from numpy.typing import NDArray

PEER = [
    [0.290994005, 0.736380887, -0.16511204, -0.113511902, 0.111115184],
    [0.195406512, 0.570333321, -0.068250365, -0.219266177, -0.018809135],
    [-0.284281865, -0.501390433, 0.283824309, -0.300266022, -0.377092631],
    [-0.043258618, -0.294412029, -0.079394464, 0.36567905, 0.211296369],
    [0.095163832, -0.126795993, -0.260599556, 0.656203677, 0.489169315],
]
"""Left right of concept-erasure 0.2.4 for the states below, by benchmarks/peers/leace.py of the tag benchmarks-2026-11."""


def example(spans: int = 200, size: int = 5, classes: int = 3) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """States, float64 [spans, size], whose means differ by class; and the classes."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, classes, spans)
    mixed = generator.standard_normal((spans, size)) @ generator.standard_normal((size, size))
    return mixed + generator.standard_normal((classes, size))[labels], labels


def fitted(states: NDArray[np.float64], labels: NDArray[np.int64], classes: int = 3) -> Eraser:
    """LEACE of some states, whose sums come in two parts."""
    moments = Moments(torch.from_numpy(states.mean(axis=0).astype(np.float32)), classes)
    for part in (slice(0, 50), slice(50, None)):
        moments.add(torch.from_numpy(states[part]), torch.from_numpy(labels[part]))
    return leace(*moments.covariances())


def erased(states: NDArray[np.float64], eraser: Eraser) -> NDArray[np.float64]:
    return states - (states - states.mean(axis=0)) @ eraser.right.T @ eraser.left.T


def means(states: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.stack([states[labels == label].mean(axis=0) for label in np.unique(labels)])


def test_classes_have_one_mean_afterwards_and_least_squares_finds_nothing() -> None:
    states, labels = example(size=20, classes=4)
    eraser = fitted(states, labels, 4)
    assert eraser.rank == 3
    after = erased(states, eraser)
    assert np.ptp(means(states, labels), axis=0).max() > 0.5
    assert np.ptp(means(after, labels), axis=0).max() < 1e-6
    classes = np.eye(4)[labels]
    inputs = np.column_stack([after, np.ones(len(after))])
    scores = inputs @ np.linalg.lstsq(inputs, classes, rcond=None)[0]
    np.testing.assert_allclose(scores, np.broadcast_to(classes.mean(axis=0), scores.shape), atol=1e-6)


def test_the_map_is_concept_erasures() -> None:
    eraser = fitted(*example())
    np.testing.assert_allclose(eraser.left @ eraser.right, PEER, atol=1e-7)


def test_directions_in_which_states_do_not_vary_are_left_alone() -> None:
    states, labels = example()
    wide = np.column_stack([states, np.full(len(states), 3.0), states[:, 0] + states[:, 1]])
    eraser = fitted(wide, labels)
    after = erased(wide, eraser)
    assert np.ptp(means(after, labels), axis=0).max() < 1e-6
    np.testing.assert_allclose(after[:, 5], 3.0, atol=1e-9)
    np.testing.assert_allclose(after[:, :5], erased(states, fitted(states, labels)), atol=1e-6)
    assert np.abs(eraser.right).max() < 100


def test_classes_without_a_state_or_a_difference_add_no_rank() -> None:
    states, labels = example()
    assert fitted(states, labels, 9).rank == 2
    alike = np.concatenate([states, states])
    eraser = fitted(alike, np.repeat([0, 1], len(states)), 2)
    assert eraser.rank == 0


def test_probes_widen_an_orthonormal_basis_up_to_a_rank() -> None:
    generator = np.random.default_rng(3)
    basis = with_probe(np.zeros((8, 0)), generator.standard_normal((8, 3)), 5)
    assert basis.shape == (8, 2)  # scores of all classes may move together
    assert with_probe(basis, basis @ generator.standard_normal((2, 3)), 5).shape == (8, 2)
    wider = with_probe(basis, generator.standard_normal((8, 3)), 5)
    assert wider.shape == (8, 4)
    np.testing.assert_array_equal(wider[:, :2], basis)
    np.testing.assert_allclose(wider.T @ wider, np.eye(4), atol=1e-12)
    weights = generator.standard_normal((8, 3))
    last = with_probe(wider, weights, 5)
    assert last.shape == (8, 5)
    read = weights - weights.mean(axis=1, keepdims=True)
    left = read - wider @ (wider.T @ read)
    np.testing.assert_allclose(abs(last[:, 4] @ np.linalg.svd(left)[0][:, 0]), 1, atol=1e-9)  # what it reads most


@pytest.mark.parametrize(("seed", "layer", "same"), [(5, 2, True), (6, 2, False), (5, 3, False)])
def test_a_random_subspace_follows_from_seed_and_layer(seed: int, layer: int, same: bool) -> None:
    first, other = random_subspace(12, 3, 5, 2), random_subspace(12, 3, seed, layer)
    np.testing.assert_allclose(first.right @ first.left, np.eye(3), atol=1e-12)
    assert np.array_equal(first.left, other.left) is same
