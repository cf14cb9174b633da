"""The synchronous client is what the generator makes of the asynchronous one."""

import pytest

from tools import async_to_sync


@pytest.mark.slow
def test_what_is_committed_is_what_the_generator_writes():
    there = {path: path.read_text(encoding="utf-8") for path in async_to_sync.TARGET.glob("*.py")}
    assert there == async_to_sync.generated()


def test_async_and_await_go_and_names_change():
    source = '''
class AsyncReader(AsyncIterator[int]):
    """Reads with `async for`; see `AsyncClient.close`, which awaits nothing that was started.

    >>> async with client.read() as reader:
    ...     print(await reader.table())
    """

    async def __aenter__(self) -> AsyncGenerator[list[int], None]:
        async for item in self.items:  # Not `anext(items)`.
            yield await item

    # sync: @property
    async def started(self) -> str:
        return await anext(self.items)
'''
    assert (
        async_to_sync.synchronous(source)
        == '''
class Reader(Iterator[int]):
    """Reads with `for`; see `Client.close`, which awaits nothing that was started.

    >>> with client.read() as reader:
    ...     print(reader.table())
    """

    def __enter__(self) -> Generator[list[int], None, None]:
        for item in self.items:  # Not `next(items)`.
            yield item

    @property
    def start(self) -> str:
        return next(self.items)
'''
    )
