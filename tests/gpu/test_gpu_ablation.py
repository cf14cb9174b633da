"""Sweeps and rankings on a GPU: the same numbers as on the CPU."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.ablation import Mode, every_head, every_layer
from bertscope_service.analyses.observers.importance import GradientObserver
from bertscope_service.encoders.base import Encoder, HeadSet
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from numpy.typing import NDArray

pytest.importorskip("prometheus_client")

from tests.support.hosted import GoldObjective, Hosted, running

DEVICE = torch.device("cuda:0")
SETS: tuple[HeadSet, ...] = (*every_head(3, 4), *every_layer(3, 4), ((0, (1,)), (2, (0, 3))))


@pytest.fixture(scope="module", params=["bert", "mobilebert"])
def hosted(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Hosted:
    return Hosted(request.param, checkpoint(request.param))


def on_gpu(hosted: Hosted) -> TorchEncoder:
    return load_encoder(hosted.folder, hosted.architecture, device=DEVICE, precision="fp32")


def swept(hosted: Hosted, encoder: Encoder, mode: Mode, memory_bytes: int) -> dict[HeadSet, NDArray[np.float64]]:
    from bertscope_service.ablation.evaluation import Evaluation
    from bertscope_service.engine.bulk import BulkRunner

    async def sweep() -> dict[HeadSet, NDArray[np.float64]]:
        async with running() as engine:
            bulk = BulkRunner(engine, encoder, "test", None)
            evaluation = Evaluation(encoder, GoldObjective(hosted.sequences), bulk, hosted.change(mode), memory_bytes)
            await evaluation.baseline(hosted.untouched)
            return {heads: values async for heads, values in evaluation.changed(hosted.untouched, SETS)}

    return asyncio.run(sweep())


@pytest.mark.parametrize(("mode", "memory_bytes"), [(Mode.ZERO, 1 << 30), (Mode.UNIFORM, 40_000), (Mode.MEAN, 40_000)])
def test_a_sweep_gives_the_same(hosted: Hosted, mode: Mode, memory_bytes: int) -> None:
    expected = swept(hosted, hosted.encoder, mode, 1 << 30)
    found = swept(hosted, on_gpu(hosted), mode, memory_bytes)
    assert found.keys() == expected.keys()
    for heads, values in found.items():
        np.testing.assert_allclose(values, expected[heads], rtol=1e-4, atol=1e-4)


def test_gradients_are_the_same(hosted: Hosted) -> None:
    found, expected = (gradients(hosted, encoder) for encoder in (on_gpu(hosted), hosted.encoder))
    for (loss, gradient), (right_loss, right) in zip(found, expected, strict=True):
        assert loss == pytest.approx(right_loss, abs=1e-4)
        np.testing.assert_allclose(gradient, right, atol=1e-3 * float(right.max()))


@torch.inference_mode()
def gradients(hosted: Hosted, encoder: Encoder) -> list[Any]:
    """What all rows in one padded batch give, as a worker runs them."""
    observers = [GradientObserver(observer) for observer in GoldObjective(hosted.sequences).losses]
    readout = GradientObserver.run(encoder, encoder.begin(hosted.sequences), None, observers)
    return readout.deal(tuple(tensor.cpu().numpy() for tensor in readout.tensors))
