"""Large vectors of a request count as what they take, not as what plans of texts do."""

import numpy as np
import pytest
from bertscope.v1 import site_pb2
from bertscope.values.vectors import tensor
from bertscope_service.api.request_memory import RequestMemory
from bertscope_service.api.sites import codes_bytes
from bertscope_service.errors import Overloaded
from bertscope_service.observability.metrics import Metrics

SIX_MIB = 6 * 1024 * 1024


@pytest.mark.asyncio
async def test_four_calls_of_one_client_with_codes_fit() -> None:
    memory = RequestMemory(Metrics())
    for _ in range(4):
        memory.hold("one", 10_000, SIX_MIB)
    with pytest.raises(Overloaded):
        memory.hold("one", 2 * SIX_MIB)


def test_codes_are_found_in_a_change_and_in_the_run_that_it_takes_vectors_from() -> None:
    codes = site_pb2.SiteChange(codes=site_pb2.CodesChange(encoder=tensor(np.zeros((20, 30), np.float32))))
    size = 4 * 20 * 30
    assert size <= codes_bytes(codes) < size + 100
    source = site_pb2.SiteChange(source=site_pb2.SiteSource(interventions=[site_pb2.SiteIntervention(change=codes)]))
    assert codes_bytes(source) == codes_bytes(codes)
    assert codes_bytes(site_pb2.SiteChange(scale=2)) == 0
