"""Tells where 8-bit integers save memory and little or no time."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.onnx.sessions import adds_bytes_exactly
from bertscope_service.encoders.torch.integer_products import integer_product
from bertscope_service.encoders.torch.quantization import INT8
from bertscope_service.models.loaded import LoadedModel

LITTLE_GAIN = (
    "8-bit integers gain little or no time over fp32 on this machine, which has no instruction that adds products of bytes "
    "exactly (VNNI); the answers are those of machines that have one"
)


def integer_remark(encoder: Encoder) -> str:
    """Returns `LITTLE_GAIN` for an int8 model whose library has no fast exact product of integers here, else ""."""
    if encoder.precision != INT8:
        return ""
    fast = adds_bytes_exactly() if encoder.runtime == "onnx" else integer_product(encoder.device).fast
    return "" if fast else LITTLE_GAIN


def integer_warnings(models: Iterable[LoadedModel]) -> list[str]:
    """Returns a warning that names the models with a remark, if there are any."""
    names = dict.fromkeys(model.name for model in models if integer_remark(model.encoder))
    return [f"{', '.join(names)}: {LITTLE_GAIN}"] if names else []
