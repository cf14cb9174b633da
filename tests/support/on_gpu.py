"""What tests on a GPU share: the device, gates of all kinds, a server, and numbers brought back to the CPU."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.encoders.edits import Edits

from tests.support.reference import Outputs, Subject

DEVICE = torch.device("cuda:0")
EDITS = {(0, 1): (0.0, 1.0), (1, 0): (0.5, 0.0), (2, 2): (0.0, 0.0), (2, 3): (0.0, 1.0)}


def need(*modules: str) -> None:
    """Skip a test where the interpreter that `make gpu` was given has not all that it takes."""
    for module in modules:
        pytest.importorskip(module)


def rows_of(outputs: Outputs) -> list[list[torch.Tensor]]:
    """Everything about each row's real tokens, on the CPU."""
    return [[tensor.float().cpu() for tensor in outputs.row(index)] for index in range(len(outputs.lengths))]


def some_gates(subject: Subject) -> list[Edits | None]:
    """Every other row has gates of all kinds."""
    return [subject.gates(EDITS) if index % 2 else None for index in range(len(subject.sequences))]


@asynccontextmanager
async def serving(folder: Path, **settings: Any) -> AsyncIterator[Any]:
    """A server of one model on the GPU, and a channel to it."""
    need("grpc", "grpc_health", "grpc_reflection", "grpc_status", "prometheus_client", "pydantic_settings")
    import grpc
    from bertscope_service.rpc.server import Server
    from bertscope_service.settings import Settings

    server = Server(Settings(model=[f"tiny={folder}"], device=str(DEVICE), port=0, metrics_port=0, **settings))
    ports = await server.start()
    try:
        await server.host()
        await server.load_models()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{ports.grpc}") as channel:
            yield channel
    finally:
        await server.stop(5)
