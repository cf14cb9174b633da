"""Fixtures: an engine with one device."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.rig import Rig


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.engine.close()
