"""Stores weights as codes into a dictionary of a few values, with outliers stored whole, after GOBO (Zadeh et al. 2020)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.checkpoints.steps import Applied, WeightOnly, grown
from bertscope_service.encoders.torch.quantization import (
    WEIGHT_ONLY,
    Dictionary,
    Quantization,
    pack,
    quantizable,
    stored_weights,
    write_quantization,
)

OUTLIER_LOG_LIKELIHOOD = -4.0
"""Weights with a smaller log density under the normal distribution that fits their matrix are stored whole (section IV-A)."""

MOST_BINS = 1024
"""Maximum number of bins of the histogram."""

LEAST_GAIN = 1e-5
"""The search ends with a round that reduces the squared distances by less than this share."""

MAX_ROUNDS = 1000
"""Maximum number of rounds. It takes 10 to 100; each costs a search for every centroid, not a scan of every value."""


def quantize_weight_only(model: Any, bits: int) -> tuple[dict[str, torch.Tensor], Applied]:
    """Returns the weights of a model to store, and sets its config accordingly.

    Linear layers and embeddings become codes of 2 to 8 bits, the rest float32. They are decoded when the model is loaded,
    which saves disk and download, not memory or time. The model's weights stay as they are; its config does not.
    """
    matrices, weights = quantizable(model), dict[str, torch.Tensor]()
    before = values = outliers = 0
    for name, tensor in stored_weights(model).items():
        before += tensor.numel() * tensor.element_size()
        if name in matrices:
            coded = encode(tensor, bits)
            values += tensor.numel()
            outliers += len(coded.outliers)
            weights |= coded.tensors(name)
        else:
            weights[name] = tensor.float()
    write_quantization(model.config, Quantization(WEIGHT_ONLY, bits))
    after = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    share = outliers / values if values else 0.0
    description = (
        f"stored {len(matrices)} matrices as {bits}-bit codes of {2**bits} values each, {share:.2%} of the weights whole"
    )
    numbers = {
        "matrices": len(matrices),
        "bits": bits,
        "outlier_share": share,
        "bytes_before": before,
        "bytes_after": after,
    }
    return weights, Applied(WeightOnly.name, description + grown(before, after), numbers)


def encode(tensor: torch.Tensor, bits: int) -> Dictionary:
    """Encodes one tensor, finite, with fewer than 2^31 values."""
    values = tensor.detach().float().flatten().numpy()
    unusual = find_outliers(values)
    usual = np.sort(values[~unusual])
    found = find_centroids(usual, 2**bits) if len(usual) else np.zeros(2**bits)
    centroids = found.astype(np.float32)
    codes = np.searchsorted((centroids[1:] + centroids[:-1]) / 2, values).astype(np.uint8)
    places = np.flatnonzero(unusual)
    return Dictionary(
        torch.from_numpy(pack(codes, bits)),
        torch.from_numpy(centroids),
        torch.from_numpy(places.astype(np.int32)),
        torch.from_numpy(values[places]),
        tuple(tensor.shape),
    )


def find_outliers(values: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Finds the values that are unlikely under the normal distribution with their mean and standard deviation."""
    mean, deviation = float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))
    if deviation == 0:
        return np.zeros(len(values), dtype=np.bool_)
    # log N(x) = -z^2 / 2 - ln(deviation sqrt(2 pi)), solved for |x - mean|.
    square = -2 * (OUTLIER_LOG_LIKELIHOOD + math.log(deviation * math.sqrt(2 * math.pi)))
    return np.asarray(np.abs(values - np.float32(mean)) > deviation * math.sqrt(max(square, 0.0)))


def find_centroids(ordered: NDArray[np.float32], count: int) -> NDArray[np.float64]:
    """Returns `count` values, ascending, that represent sorted ones with a small squared distance.

    Every value moves to the nearest mean and the means are recomputed (Lloyd 1982) until the gain is small. The first groups
    have equal shares of the cube root of the density, which is best for very many of them (Panter and Dite 1951). GOBO begins
    with groups of equal size and ends at the minimum of the sum of distances (section IV-B): its outer groups stay too wide,
    more so with more bits.
    """
    sums = np.concatenate([[0.0], np.cumsum(ordered, dtype=np.float64)])
    edges = _first_groups(ordered, count)
    centroids = ordered[np.minimum(edges[:-1], len(ordered) - 1)].astype(np.float64)
    total, left = float(np.square(ordered, dtype=np.float64).sum()), math.inf
    for _ in range(MAX_ROUNDS):
        sizes, centroids = np.diff(edges), _means(sums, edges, centroids)
        now = total - float((sizes * centroids**2).sum())
        if now >= left * (1 - LEAST_GAIN):
            break
        edges, left = _nearest(ordered, centroids), now
    return centroids


def _first_groups(ordered: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Returns where each group begins, and the end: int64 [count + 1]."""
    sizes, borders = np.histogram(ordered, bins=min(MOST_BINS, math.isqrt(len(ordered))))
    reached = np.concatenate([[0.0], np.cumsum(np.cbrt(sizes))])
    inner = np.interp(np.linspace(0, reached[-1], count + 1)[1:-1], reached, borders)
    return np.concatenate([[0], np.searchsorted(ordered, inner.astype(ordered.dtype)), [len(ordered)]]).astype(np.int64)


def _nearest(ordered: NDArray[np.float32], centroids: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns where the group of each centroid begins, and the end: int64 [count + 1]."""
    # With another number format, all values would be converted first.
    inner = np.searchsorted(ordered, ((centroids[1:] + centroids[:-1]) / 2).astype(ordered.dtype))
    return np.concatenate([[0], inner, [len(ordered)]]).astype(np.int64)


def _means(sums: NDArray[np.float64], edges: NDArray[np.int64], otherwise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean of each group, ascending; an empty one keeps its old mean, which lies between its neighbours."""
    sizes = np.diff(edges)
    means = np.where(sizes > 0, np.diff(sums[edges]) / np.maximum(sizes, 1), otherwise)
    # Differences of long sums have rounding errors.
    return np.asarray(np.maximum.accumulate(means))
