"""GOBO's dictionary: what it keeps whole, its centroids, and bits on their way to a file and back."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from bertscope_service.compression.dictionary import encode, find_centroids, find_outliers
from bertscope_service.encoders.torch.quantization import MAX_BITS, MIN_BITS, Quantization, decode_weights, pack, unpack
from numpy.typing import NDArray

BITS = range(MIN_BITS, MAX_BITS + 1)


def weights(*shape: int, scale: float = 0.04) -> torch.Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("count", [1, 5, 8, 1000])
def test_packed_codes_come_back(bits: int, count: int) -> None:
    codes = np.random.default_rng(bits).integers(0, 2**bits, count).astype(np.uint8)
    packed = pack(codes, bits)
    assert len(packed) == math.ceil(count * bits / 8)
    assert (unpack(packed, count, bits) == codes).all()
    with pytest.raises(ValueError, match="bytes of codes"):
        unpack(packed[1:], count, bits)


def test_the_first_bit_is_the_highest_of_the_first_code() -> None:
    assert pack(np.array([0b101, 0b011, 0b110], dtype=np.uint8), 3).tolist() == [0b10101111, 0b00000000]


def test_outliers_are_those_with_a_log_density_below_minus_four() -> None:
    values = weights(20000).numpy()
    values[[5, 77]] = 0.3, -0.2
    mean, deviation = values.mean(dtype=np.float64), values.std(dtype=np.float64)
    density = -0.5 * ((values - mean) / deviation) ** 2 - math.log(deviation * math.sqrt(2 * math.pi))
    found = find_outliers(values)
    assert found[[5, 77]].all()
    assert (found == (density < -4)).all()
    assert 2 < found.sum() < 40
    assert not find_outliers(np.full(9, 0.25, dtype=np.float32)).any()


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_every_value_decodes_to_its_nearest_centroid_and_outliers_to_themselves(bits: int) -> None:
    tensor = weights(60, 70)
    tensor[3, 4], tensor[50, 1] = 0.7, -0.9
    coded = encode(tensor, bits)
    found, exact = coded.decode(), tensor.flatten().numpy()
    whole = np.zeros(len(exact), dtype=bool)
    whole[coded.outlier_places.numpy()] = True
    assert whole[[3 * 70 + 4, 50 * 70 + 1]].all()
    assert (found.flatten().numpy()[whole] == exact[whole]).all()
    distances = np.abs(exact[~whole, None] - coded.centroids.numpy()[None])
    np.testing.assert_allclose(np.abs(exact - found.flatten().numpy())[~whole], distances.min(axis=1), atol=1e-7)
    assert found.shape == tensor.shape
    assert len(coded.centroids) == 2**bits


def squared(values: NDArray[np.float32], centroids: NDArray[np.float64]) -> float:
    return float(((values[:, None] - centroids[None]) ** 2).min(axis=1).sum())


def least_squared(values: NDArray[np.float32], count: int) -> float:
    """The least sum of squared distances that so many values can have: every way to cut sorted ones into groups."""
    exact = values.astype(np.float64)
    first, second = (np.concatenate([[0.0], np.cumsum(exact**power)]) for power in (1, 2))
    begin, end = np.meshgrid(np.arange(len(exact) + 1), np.arange(len(exact) + 1), indexing="ij")
    sizes, sums = end - begin, first[end] - first[begin]
    cost = np.where(sizes > 0, second[end] - second[begin] - sums**2 / np.maximum(sizes, 1), np.where(sizes, np.inf, 0.0))
    best = cost[0]
    for _ in range(count - 1):
        best = (best[:, None] + cost).min(axis=0)
    return float(best[-1])


SHAPES: dict[str, Callable[[np.random.Generator], NDArray[np.float64]]] = {
    "normal": lambda rng: rng.normal(size=1000),
    "heavy tails": lambda rng: rng.standard_t(4, size=1000),
    "even": lambda rng: rng.uniform(-1, 1, 1000),
    "half zeros": lambda rng: np.concatenate([np.zeros(500), rng.normal(size=500)]),
}


@pytest.mark.parametrize("count", [4, 8, 16])
@pytest.mark.parametrize("shape", SHAPES)
def test_centroids_are_near_the_best_there_are(shape: str, count: int) -> None:
    values = np.sort(SHAPES[shape](np.random.default_rng(0)).astype(np.float32))
    assert squared(values, find_centroids(values, count)) < 1.15 * least_squared(values, count)


@pytest.mark.parametrize(("bits", "least"), [(2, 0.1175), (3, 0.03454), (4, 0.009497), (5, 0.002499)])
def test_the_error_on_normal_weights_is_that_of_the_best_quantiser(bits: int, least: float) -> None:
    """As tabled by Max (1960) for a deviation of 1."""
    values = np.sort(weights(40, 5000, scale=1.0).flatten().numpy())
    assert squared(values, find_centroids(values, 2**bits)) / len(values) == pytest.approx(least, rel=0.02)


@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0, 2.0], [-1.0, 0.5, 3.0]])
def test_few_values_are_kept_as_they_are(values: list[float]) -> None:
    found = encode(torch.tensor(values)[None], 2).decode()
    torch.testing.assert_close(found, torch.tensor(values)[None])


def test_a_file_with_another_number_of_centroids_is_refused() -> None:
    file = encode(weights(4, 5), 3).tensors("a.weight")
    assert torch.equal(decode_weights(file, Quantization("weight_only", 3))[0]["a.weight"], encode(weights(4, 5), 3).decode())
    with pytest.raises(ValueError, match="centroids"):
        decode_weights(file, Quantization("weight_only", 4))
    with pytest.raises(KeyError):
        decode_weights({name: part for name, part in file.items() if "outliers" not in name}, Quantization("weight_only", 3))
