"""On a GPU: probes, lenses, sparse codes and smaller models are trained through a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.on_gpu import serving

NAMES = ("TrainProbe", "TrainEraser", "TrainStructuralProbe", "TrainLens", "TrainCodes", "DistillModel")


@pytest.mark.parametrize("name", NAMES)
def test_training_ends_with_a_result(checkpoint: Callable[[str], Path], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from bertscope.v1 import distillation_pb2_grpc, representation_pb2_grpc
    from bertscope_service.probing import eraser_run

    from tests.support.requests import good

    for settings in ("PROBES", "NEAR_MINIMUM"):
        monkeypatch.setattr(eraser_run, settings, replace(getattr(eraser_run, settings), max_epochs=10))

    folder = checkpoint("bert")
    request = good(folder)[name]
    request.model = "models/tiny"  # type: ignore[attr-defined]

    async def run() -> list[Any]:
        async with serving(folder) as channel:
            of_states = representation_pb2_grpc.RepresentationServiceStub(channel)
            call = getattr(of_states, name, None) or distillation_pb2_grpc.DistillationServiceStub(channel).DistillModel
            return [response async for response in call(request)]

    responses = asyncio.run(run())
    assert responses[-1].WhichOneof("event") not in (None, "progress")
