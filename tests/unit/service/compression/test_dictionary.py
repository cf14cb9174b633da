"""GOBO's dictionary: what it keeps whole, its centroids, and bits on their way to a file and back."""

import math

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
@pytest.mark.parametrize("count", [5, 1000])
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


@pytest.mark.parametrize("bits", [2, 8])
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


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "least"), [(2, 0.1175), (4, 0.009497)])
def test_the_error_on_normal_weights_is_that_of_the_best_quantiser(bits: int, least: float) -> None:
    """As tabled by Max (1960) for a deviation of 1."""
    values = np.sort(weights(40, 5000, scale=1.0).flatten().numpy())
    assert squared(values, find_centroids(values, 2**bits)) / len(values) == pytest.approx(least, rel=0.02)


@pytest.mark.parametrize("values", [[2.0, 2.0, 2.0], [-1.0, 0.5, 3.0]])
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
