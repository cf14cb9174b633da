"""Products of 8-bit integers: exact, and the same numbers on every CPU."""

import platform
from collections.abc import Iterator

import pytest
import torch
from bertscope_service.encoders.torch import integer_products
from bertscope_service.encoders.torch.integer_products import (
    EXACT,
    X86,
    FloatProduct,
    HalvesProduct,
    IntegerProduct,
    SplitProduct,
    WholeProduct,
    exact_parts,
    integer_product,
)
from bertscope_service.encoders.torch.quantization import LARGEST

from tests.support.integer_products import CPU, SHAPES, digest, drawn, exact
from tools.capped import capped
from tools.capped_tests import LIMITS

ALL: list[type[IntegerProduct]] = [WholeProduct, SplitProduct, HalvesProduct, FloatProduct]
HERE = ALL[ALL.index(integer_product(CPU)) :]
"""The product of this CPU, and those of CPUs with fewer instructions, which run here, too."""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", HERE)
def test_sums_are_exact_and_rounded_once(kind: type[IntegerProduct], shape: tuple[int, int, int]) -> None:
    steps, matrix = drawn(*shape)
    expected = exact(steps, matrix)
    assert shape[1] < EXACT / LARGEST**2 or float((expected / matrix.scales).abs().max()) > EXACT
    assert torch.equal(kind(matrix)(steps), expected)


@pytest.fixture
def rounding_onednn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets oneDNN round sums of unsigned codes to float32 before it takes off what their zero adds."""

    def rounded(
        codes: torch.Tensor, packed: torch.Tensor, zero: int, scales: torch.Tensor, zeros: torch.Tensor
    ) -> torch.Tensor:
        weights = packed.double()
        sums = (codes.double() @ weights).float() - (zero * weights.sum(0)).float()
        return sums * scales

    monkeypatch.setattr(torch.ops.onednn, "qlinear_prepack", lambda values, shape: values.T)
    monkeypatch.setattr(integer_products, "_onednn_product", rounded)
    integer_products._cpu_product.cache_clear()
    yield
    integer_products._cpu_product.cache_clear()


@pytest.mark.skipif(platform.machine() not in X86, reason="asks oneDNN on x86 alone")
@pytest.mark.usefixtures("rounding_onednn")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_where_onednn_rounds_sums_of_codes_they_are_split(shape: tuple[int, int, int]) -> None:
    assert integer_product(CPU) is SplitProduct
    steps, matrix = drawn(*shape)
    assert torch.equal(SplitProduct(matrix)(steps.clone()), exact(steps, matrix))
    if shape == (33, 3072, 64):
        assert not torch.equal(WholeProduct(matrix)(steps.clone()), exact(steps, matrix))


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
