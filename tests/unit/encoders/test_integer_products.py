"""Products of 8-bit integers: exact, and the same numbers on every CPU."""

from __future__ import annotations

import platform

import numpy as np
import pytest
import torch
from bertscope_service.encoders.torch.integer_products import (
    EXACT,
    X86,
    FloatProduct,
    HalvesProduct,
    IntegerProduct,
    WholeProduct,
    exact_parts,
    integer_product,
)
from bertscope_service.encoders.torch.quantization import LARGEST

from tests.support.integer_products import CPU, SHAPES, digest, drawn
from tools.capped import capped
from tools.capped_tests import LIMITS

ALSO = {WholeProduct: [HalvesProduct, FloatProduct], HalvesProduct: [FloatProduct], FloatProduct: list[type[IntegerProduct]]()}
HERE = [integer_product(CPU), *ALSO[integer_product(CPU)]]
"""The product of this CPU, and those of CPUs with fewer instructions, which run here, too."""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", HERE)
def test_sums_are_exact_and_rounded_once(kind: type[IntegerProduct], shape: tuple[int, int, int]) -> None:
    steps, matrix = drawn(*shape)
    sums = np.rint(steps.numpy()).astype(np.int64) @ matrix.values.numpy().astype(np.int64).T
    assert shape[1] < EXACT / LARGEST**2 or np.abs(sums).max() > EXACT
    expected = torch.from_numpy(sums.astype(np.float32) * matrix.scales.numpy())
    assert torch.equal(kind(matrix)(steps), expected)


@pytest.mark.parametrize("kind", HERE)
def test_a_row_that_is_no_number_changes_no_other(kind: type[IntegerProduct]) -> None:
    steps, matrix = drawn(5, 64, 16)
    odd = steps.clone()
    odd[1, 3], odd[2, 4], odd[4, 5] = torch.nan, torch.inf, -torch.inf
    found, expected = kind(matrix)(odd), kind(matrix)(steps)
    assert torch.equal(found[[0, 3]], expected[[0, 3]])


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS)
def test_cpus_with_fewer_instructions_give_the_same_numbers(limits: str) -> None:
    """Products of bytes overflow there, which no list of the CPU's features says: oneDNN is told not to use them."""
    program = """
from tests.support.integer_products import digest, integer_product, CPU
print(integer_product(CPU).__name__, digest())
"""
    name, found = capped(program, LIMITS[limits]).split()
    assert found == digest()
    assert name == ("HalvesProduct" if platform.machine() in X86 else "FloatProduct")


def test_other_devices_multiply_floats() -> None:
    assert integer_product(torch.device("cuda:0")) is integer_product(torch.device("mps")) is FloatProduct


def test_matrices_are_split_no_further_than_sums_need() -> None:
    small = torch.ones((4, 5000), dtype=torch.int8)
    assert [part.shape[1] for part in exact_parts(small)] == [5000]
    large = torch.full((4, 3072), -LARGEST, dtype=torch.int8)
    assert [part.shape[1] for part in exact_parts(large)] == [1024] * 3
    assert EXACT // LARGEST**2 < 3072 // 2
    assert len(exact_parts(torch.zeros((4, 0), dtype=torch.int8))) == 1
