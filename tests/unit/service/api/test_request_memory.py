"""Large vectors of a request count as what they take, not as what plans of texts do."""

import asyncio

import numpy as np
import pytest
from bertscope.v1 import site_pb2
from bertscope.values.vectors import tensor
from bertscope_service.api.change_limits import codes_bytes
from bertscope_service.api.request_memory import PARSED_BYTES, REQUESTS_BYTES, RequestMemory
from bertscope_service.errors import Overloaded
from bertscope_service.observability.metrics import Metrics

SIX_MIB = 6 * 1024 * 1024


@pytest.mark.asyncio
async def test_four_calls_of_one_client_with_codes_fit() -> None:
    memory, over = RequestMemory(Metrics()), asyncio.Event()

    async def call(*sizes: int) -> None:
        memory.hold("one", *sizes)
        await over.wait()

    calls = [asyncio.create_task(call(10_000, SIX_MIB)) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await call(2 * SIX_MIB)
    over.set()
    await asyncio.gather(*calls)
    assert memory.total == 0


@pytest.mark.asyncio
async def test_a_request_takes_memory_from_before_it_is_parsed() -> None:
    memory, over = RequestMemory(Metrics()), asyncio.Event()

    async def call(client: str, size: int) -> None:
        memory.receive(client, size)
        memory.hold(client, 1000)  # its plan takes the place of what came
        memory.receive(client, size)
        await over.wait()

    most = REQUESTS_BYTES // PARSED_BYTES
    calls = [asyncio.create_task(call(client, most // 2 - 1)) for client in ("one", "other")]
    await asyncio.sleep(0)
    assert 0.99 * REQUESTS_BYTES < memory.total < REQUESTS_BYTES
    with pytest.raises(Overloaded):
        memory.receive("third", 1000)
    over.set()
    await asyncio.gather(*calls)
    memory.receive("third", 2 * most)  # a single one always fits


def test_codes_are_found_in_a_change_and_in_the_run_that_it_takes_vectors_from() -> None:
    codes = site_pb2.SiteChange(codes=site_pb2.CodesChange(encoder=tensor(np.zeros((20, 30), np.float32))))
    size = 4 * 20 * 30
    assert size <= codes_bytes(codes) < size + 100
    source = site_pb2.SiteChange(source=site_pb2.SiteSource(interventions=[site_pb2.SiteIntervention(change=codes)]))
    assert codes_bytes(source) == codes_bytes(codes)
    assert codes_bytes(site_pb2.SiteChange(scale=2)) == 0
