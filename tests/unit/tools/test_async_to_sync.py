"""The synchronous client is what the generator makes of the asynchronous one."""

import pytest

from tools import async_to_sync


@pytest.mark.slow
def test_what_is_committed_is_what_the_generator_writes():
    there = {path: path.read_text(encoding="utf-8") for path in async_to_sync.TARGET.glob("*.py")}
    assert there == async_to_sync.generated()
