"""The vectors of changes at sites in a request: plain ones, projections, and sparse codes."""

from __future__ import annotations

import numpy as np
from bertscope.v1 import common_pb2, site_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.site_changes import codes_change
from bertscope_service.api.tensors import Expected, parse_tensor
from bertscope_service.encoders.sites import Change, Codes, Site
from bertscope_service.errors import InvalidArgument

MAX_RANK = 256

VECTOR = Expected("VECTOR_SIZE", "VECTOR_NOT_FINITE", "this site", "send as many numbers", "send finite numbers")


def read_vectors(tensor: common_pb2.Tensor, field: str, size: int) -> NDArray[np.float32]:
    """Returns one vector, [size], or one for each position, [positions, size]. Raises InvalidArgument."""
    shape = (tensor.shape[0], size) if len(tensor.shape) == 2 else (size,)
    return parse_tensor(tensor, field, shape, VECTOR)


def read_projection(message: site_pb2.Projection, plain: Change, size: int, field: str) -> Change:
    """Returns a change that projects whole vectors of so many numbers. Raises InvalidArgument."""
    if plain.units is not None:
        raise InvalidArgument(field, f"{field} is for whole vectors; leave units out", "CHANGE_UNUSABLE")
    rank = message.left.shape[1] if len(message.left.shape) == 2 else 0
    if not 1 <= rank <= MAX_RANK:
        told = f"{field}.left has shape {list(message.left.shape[:3])} and must have [{size}, rank], rank 1 to {MAX_RANK}"
        raise InvalidArgument(f"{field}.left", f"{told}; send such a matrix", "VECTOR_SIZE")
    left = parse_tensor(message.left, f"{field}.left", (size, rank), VECTOR)
    right = parse_tensor(message.right, f"{field}.right", (rank, size), VECTOR)
    add = None
    if message.HasField("mean"):
        mean = parse_tensor(message.mean, f"{field}.mean", (size,), VECTOR)
        add = (left.astype(np.float64) @ (right.astype(np.float64) @ mean)).astype(np.float32)
    return Change(plain.site, plain.layer, plain.positions, None, 1.0, add, left, right)


def read_codes_change(message: site_pb2.CodesChange, plain: Change, size: int, field: str) -> Change:
    """Returns a change of states of so many numbers by sparse codes. Raises InvalidArgument."""
    if plain.site is not Site.STATE:
        raise InvalidArgument(field, f"{field} are of states; change them at SITE_STATE", "CHANGE_UNUSABLE")
    codes, mean = read_codes(message, size, field)
    return codes_change(plain.layer, plain.positions, codes, mean, factor=message.factor, replaced=message.replace)


def read_codes(message: site_pb2.CodesChange, size: int, field: str) -> tuple[Codes, NDArray[np.float32]]:
    """Returns sparse codes of states of so many numbers, and the mean that they are around. Raises InvalidArgument."""
    count = max(1, message.encoder.shape[0]) if message.encoder.shape else 1
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("encoder", "decoder"), (count, size))
    shapes |= {"biases": (count,), "thresholds": (count,), "mean": (size,)}
    arrays = {name: parse_tensor(getattr(message, name), f"{field}.{name}", shape, VECTOR) for name, shape in shapes.items()}
    if (arrays["thresholds"] < 0).any():
        told = f"{field}.thresholds has a number below 0, and codes are active above one; send at least 0"
        raise InvalidArgument(f"{field}.thresholds", told, "VECTOR_NOT_FINITE")
    return Codes.around(**arrays), arrays["mean"]
