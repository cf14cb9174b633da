"""Defines how a checkpoint folder stores weights in few bits, and decodes them.

config.json has the kind under `QUANTIZATION_KEY`, and model.safetensors has several tensors where transformers has one. Their
names are those of the weights with a suffix each.

int8, a matrix [rows, columns]: NAME int8 [rows, columns], NAME_scale float32 [rows]; value = integer * scale of its row.
weight_only: NAME_codes uint8 [ceil(values * bits / 8)], first value and highest bit first; NAME_centroids float32 [2^bits];
NAME_outlier_places int32 [n], in the flattened matrix, NAME_outliers float32 [n]; NAME_shape int64. Outliers have a code too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

QUANTIZATION_KEY = "bertscope_quantization"
"""The key in config.json: {"kind": "int8"} or {"kind": "weight_only", "bits": 3}. transformers does not know it."""

INT8, WEIGHT_ONLY = QUANTIZED = ("int8", "weight_only")
MIN_BITS, MAX_BITS = 2, 8
PARTS = ("codes", "centroids", "outlier_places", "outliers")
LARGEST = 127
"""Integers are -127 to 127, so that a matrix and its negative are quantised alike."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """The storage of weights; `bits` is 8 for int8."""

    kind: str
    bits: int = 8


@dataclass(frozen=True, slots=True, eq=False)
class IntegerMatrix:
    """A matrix as int8 [rows, columns], and a float32 factor for each row, [rows]."""

    values: torch.Tensor
    scales: torch.Tensor

    @classmethod
    def of(cls, matrix: torch.Tensor) -> IntegerMatrix:
        """Returns the nearest integer matrix, with rows from -127 to 127."""
        exact = matrix.detach().float()
        scales = exact.abs().amax(dim=1) / LARGEST
        scales[scales == 0] = 1.0
        return cls((exact / scales[:, None]).round_().to(torch.int8), scales)

    def to(self, device: torch.device) -> IntegerMatrix:
        """Returns the matrix on a device."""
        return IntegerMatrix(self.values.to(device), self.scales.to(device))

    def decode(self) -> torch.Tensor:
        """Returns float32 [rows, columns]."""
        return self.values.float() * self.scales[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """A tensor as codes into a few centroids, and the values that are kept whole (outliers)."""

    codes: torch.Tensor
    centroids: torch.Tensor
    outlier_places: torch.Tensor
    outliers: torch.Tensor
    shape: tuple[int, ...]

    def decode(self) -> torch.Tensor:
        """Returns float32, in its shape."""
        count, bits = int(np.prod(self.shape)), len(self.centroids).bit_length() - 1
        values = self.centroids[torch.from_numpy(unpack(self.codes.numpy(), count, bits)).long()]
        values[self.outlier_places.long()] = self.outliers
        return values.view(self.shape)

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        """Returns its tensors in a file."""
        return {
            f"{name}_codes": self.codes,
            f"{name}_centroids": self.centroids,
            f"{name}_outlier_places": self.outlier_places,
            f"{name}_outliers": self.outliers,
            f"{name}_shape": torch.tensor(self.shape, dtype=torch.int64, device="cpu"),
        }

    @classmethod
    def find(cls, name: str, file: Mapping[str, torch.Tensor]) -> Dictionary:
        """Returns the dictionary of a weight in a file. Raises KeyError if a part is missing."""
        codes, centroids, places, outliers = (file[f"{name}_{part}"] for part in PARTS)
        return cls(codes, centroids, places, outliers, tuple(file[f"{name}_shape"].tolist()))


def pack(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Packs codes below 2^bits, one after another without gaps."""
    return np.packbits(np.unpackbits(codes[:, None], axis=1)[:, 8 - bits :])


def unpack(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint8]:
    """Returns the `count` codes. Raises ValueError if there are more or fewer."""
    if len(packed) != -(-count * bits // 8):
        raise ValueError(f"{len(packed)} bytes of codes for {count} values of {bits} bits")
    digits = np.unpackbits(packed, count=count * bits).reshape(count, bits)
    return np.packbits(np.pad(digits, ((0, 0), (8 - bits, 0))), axis=1)[:, 0]


def read_quantization(config: Any) -> Quantization | None:
    """Returns the quantization in a config, or None for plain numbers. Raises ValueError, with a message for users, if it is
    malformed."""
    written = getattr(config, QUANTIZATION_KEY, None)
    if written is None:
        return None
    if written == {"kind": INT8}:
        return Quantization(INT8)
    if isinstance(written, dict) and written.keys() == {"kind", "bits"} and written["kind"] == WEIGHT_ONLY:
        bits = written["bits"]
        if type(bits) is int and MIN_BITS <= bits <= MAX_BITS:
            return Quantization(WEIGHT_ONLY, bits)
    raise ValueError(f"{QUANTIZATION_KEY} is {written!r}, which this version can't read")


def write_quantization(config: Any, quantization: Quantization) -> None:
    """Writes into a config how the weights beside it are stored."""
    more = {"bits": quantization.bits} if quantization.kind == WEIGHT_ONLY else {}
    setattr(config, QUANTIZATION_KEY, {"kind": quantization.kind, **more})


def decode_weights(
    file: Mapping[str, torch.Tensor], quantization: Quantization
) -> tuple[dict[str, torch.Tensor], dict[str, IntegerMatrix]]:
    """Returns the weights in float32 by their usual names, and the integers of those stored as integers.

    Raises KeyError, ValueError, IndexError or RuntimeError for a file whose parts don't fit each other.
    """
    if quantization.kind == INT8:
        names = [name for name, tensor in file.items() if tensor.dtype is torch.int8]
        integers = {name: IntegerMatrix(file[name], file[f"{name}_scale"]) for name in names}
        for name, matrix in integers.items():
            if matrix.values.ndim != 2 or matrix.scales.shape != (len(matrix.values),) or matrix.scales.dtype != torch.float32:
                raise ValueError(f"{name}_scale does not fit {name}")
        scales = {f"{name}_scale" for name in integers}
        plain = {name: tensor for name, tensor in file.items() if name not in integers and name not in scales}
        return {**plain, **{name: matrix.decode() for name, matrix in integers.items()}}, integers
    names = [name.removesuffix("_codes") for name in file if name.endswith("_codes")]
    coded = {name: Dictionary.find(name, file) for name in names}
    for name, dictionary in coded.items():
        if len(dictionary.centroids) != 2**quantization.bits:
            raise ValueError(f"{name} has {len(dictionary.centroids)} centroids and not {2**quantization.bits}")
    parts = {f"{name}_{part}" for name in names for part in (*PARTS, "shape")}
    plain = {name: tensor for name, tensor in file.items() if name not in parts}
    return {**plain, **{name: dictionary.decode() for name, dictionary in coded.items()}}, {}


def quantizable(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the weights of a model's linear layers and embeddings, by name; a shared one has the name under which it is
    stored."""
    kinds = (torch.nn.Linear, torch.nn.Embedding)
    names = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, kinds)}
    return {name: tensor for name, tensor in stored_weights(model).items() if name in names}


def stored_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns all weights of a transformers model, without names that only repeat another one."""
    repeated: Mapping[str, str] = getattr(model, "all_tied_weights_keys", None) or {}
    return {name: tensor for name, tensor in model.state_dict().items() if name not in repeated}
