"""Benchmarks say where 8-bit integers gain no time."""

from __future__ import annotations

from pathlib import Path

import pytest
from bertscope_service.benchmark import integer_speed
from bertscope_service.benchmark.integer_speed import LITTLE_GAIN, integer_remark, integer_warnings
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.torch.integer_products import FloatProduct, HalvesProduct, IntegerProduct, WholeProduct
from bertscope_service.models.loaded import LoadedModel, LoadSpec

from tests.support.fakes import FakeEncoder


def model(name: str, runtime: str, precision: str) -> LoadedModel:
    tokenizer = TextTokenizer.__new__(TextTokenizer)
    encoder = FakeEncoder(runtime=runtime, precision=precision)
    return LoadedModel(LoadSpec(name, str(Path("nowhere")), "cpu", "fp32"), encoder, tokenizer, "", 0)  # type: ignore[arg-type]


MODELS = [model("plain", "torch", "fp32"), model("bytes", "torch", "int8"), model("graphs", "onnx", "int8")]


@pytest.mark.parametrize(
    ("product", "exact", "named"),
    [
        (WholeProduct, True, ""),
        (HalvesProduct, True, "models/bytes"),
        (FloatProduct, False, "models/bytes, models/graphs"),
        (WholeProduct, False, "models/graphs"),
    ],
)
def test_models_that_gain_no_time_are_named(
    monkeypatch: pytest.MonkeyPatch, product: type[IntegerProduct], exact: bool, named: str
) -> None:
    monkeypatch.setattr(integer_speed, "integer_product", lambda _: product)
    monkeypatch.setattr(integer_speed, "adds_bytes_exactly", lambda: exact)
    assert integer_warnings([*MODELS, *MODELS]) == ([f"{named}: {LITTLE_GAIN}"] if named else [])
    assert [integer_remark(one.encoder) for one in MODELS].count(LITTLE_GAIN) == named.count("models/")
