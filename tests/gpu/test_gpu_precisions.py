"""On a GPU: the number format that models run in, what a server says of it, and TF32 beside float32."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.encoders.onnx import sessions
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.models.precisions import set_float32_products

from tests.support.on_gpu import DEVICE, serving


@pytest.fixture(autouse=True)
def float32_again() -> Iterator[None]:
    if torch.cuda.get_device_capability(DEVICE) < (8, 0):
        pytest.skip("needs compute capability 8.0")
    yield
    set_float32_products(tf32=False)


@pytest.fixture(scope="module")
def bert(checkpoint: Callable[[str], Path]) -> Path:
    return checkpoint("bert")


async def load(channel: Any, source: Path, name: str, **fields: Any) -> Any:
    """Loads a model. Returns its precision, and what its answers say of theirs."""
    from bertscope.v1 import cloze_pb2, cloze_pb2_grpc, model_pb2, model_pb2_grpc

    request = model_pb2.LoadModelRequest(model_id=name, source=str(source), **fields)
    events = [event async for event in model_pb2_grpc.ModelServiceStub(channel).LoadModel(request)]
    fill = cloze_pb2_grpc.ClozeServiceStub(channel).FillMask
    reply = await fill(cloze_pb2.FillMaskRequest(model=f"models/{name}", texts=["The [MASK] sat."]))
    return events[-1].model.precision, reply.provenance.precision


async def refusal(channel: Any, source: Path, **fields: Any) -> str:
    import grpc

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await load(channel, source, "refused", **fields)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    return str(refused.value.details())


def test_auto_is_bf16_and_says_so(bert: Path, caplog: pytest.LogCaptureFixture) -> None:
    from bertscope.v1 import common_pb2 as common

    async def run() -> Any:
        async with serving(bert) as channel:
            return await load(channel, bert, "again")

    with caplog.at_level(logging.INFO):
        assert asyncio.run(run()) == (common.PRECISION_BFLOAT16,) * 2
    lines = [record.getMessage() for record in caplog.records]
    assert f"models compute in bf16 on {DEVICE} (--precision auto)" in lines
    assert f"models/tiny is ready on {DEVICE} in bf16, run by torch" in lines


@pytest.mark.parametrize("precision", ["tf32", "fp32"])
def test_pytorch_multiplies_as_the_server_was_started(bert: Path, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from bertscope.v1 import common_pb2 as common

    own, other = common.PRECISION_TENSORFLOAT32, common.PRECISION_FLOAT32
    if precision == "fp32":
        own, other = other, own
    seen: list[tuple[str, bool, bool]] = []
    advance = TorchEncoder.advance

    def watched(self: TorchEncoder, *given: Any, **named: Any) -> None:
        seen.append((self.precision, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32))
        advance(self, *given, **named)

    monkeypatch.setattr(TorchEncoder, "advance", watched)

    async def run() -> Any:
        async with serving(bert, precision=precision, runtime="torch") as channel:
            found = await load(channel, bert, "again")
            half = await load(channel, bert, "half", precision=common.PRECISION_BFLOAT16)
            return found, half, await refusal(channel, bert, precision=other)

    found, half, refused = asyncio.run(run())
    assert found == (own, own) and half == (common.PRECISION_BFLOAT16,) * 2
    assert "multiplies float32 in one way in a whole process" in refused and "bf16, fp16" in refused
    assert set(seen) == {(kind, precision == "tf32", precision == "tf32") for kind in (precision, "bf16")}


@pytest.mark.usefixtures("onnx_on_cuda")
def test_graphs_in_tf32_and_fp32_stand_in_one_server(bert: Path, export_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript", reason="needs onnxscript to export")
    from bertscope.v1 import common_pb2 as common

    given: list[int] = []
    providers = sessions.providers

    def watched(*asked: Any, **named: Any) -> list[Any]:
        found = providers(*asked, **named)
        given.append(found[0][1]["use_tf32"])
        return found

    monkeypatch.setattr(sessions, "providers", watched)

    async def run() -> None:
        async with serving(bert, cache_folder=export_cache) as channel:
            for precision in (common.PRECISION_UNSPECIFIED, common.PRECISION_TENSORFLOAT32):
                fields = {"runtime": common.RUNTIME_ONNX, "precision": precision}
                found[precision] = await load(channel, bert, f"graphs-{precision}", **fields), set(given)
                given.clear()

    found: dict[int, Any] = {}
    asyncio.run(run())
    assert found[common.PRECISION_UNSPECIFIED] == ((common.PRECISION_FLOAT32,) * 2, {0})
    assert found[common.PRECISION_TENSORFLOAT32] == ((common.PRECISION_TENSORFLOAT32,) * 2, {1})


def test_what_is_stored_in_fewer_bits_keeps_its_format_under_auto(bert: Path, tmp_path: Path) -> None:
    """Made from a model that runs in bf16, and read again from its folder."""
    import grpc
    from bertscope.v1 import common_pb2 as common
    from bertscope.v1 import compression_pb2 as compression
    from bertscope.v1 import model_pb2, model_pb2_grpc

    few = compression.CompressionStep(weight_only=compression.WeightOnlyQuantization(bits=4))
    half = compression.CompressionStep(half=compression.HalfPrecision(precision=common.PRECISION_FLOAT16))
    graphs = [
        compression.CompressionStep(int8=compression.Int8Quantization()),
        compression.CompressionStep(onnx=compression.OnnxExport()),
    ]

    async def run() -> list[tuple[Any, ...]]:
        async with serving(bert, model_root=[tmp_path, bert.parent]) as channel:
            compress = model_pb2_grpc.ModelServiceStub(channel).CompressModel
            found = []
            for name, step in (("few", few), ("half", half)):
                request = model_pb2.CompressModelRequest(model_id=name, steps=[step], folder=str(tmp_path / name))
                made = [event async for event in compress(request)][-1].model
                found.append((made.precision, *await load(channel, tmp_path / name, f"{name}-again")))
            with pytest.raises(grpc.aio.AioRpcError, match=r"use half on a GPU \(fp16 or bf16\)"):
                _ = [event async for event in compress(model_pb2.CompressModelRequest(model_id="graphs", steps=graphs))]
            return found

    assert asyncio.run(run()) == [(common.PRECISION_WEIGHT_ONLY,) * 3, (common.PRECISION_FLOAT16,) * 3]
