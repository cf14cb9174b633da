"""How many tokens are free on a device, from the times of batches."""

import asyncio

import pytest
from bertscope_service.models.saturation import most_free


@pytest.mark.parametrize(
    ("launches", "text", "most", "expected"),
    [(1.0, 0.01, 1000, 16), (1.0, 0.0001, 1000, 512), (0.0, 0.01, 1000, 1), (1.0, 0.01, 7, 4), (1.0, 0.01, 0, 1)],
)
def test_most_free(launches: float, text: float, most: int, expected: int) -> None:
    """A batch takes the time of its launches and that of its texts, one of which hides behind the other."""
    timed = []

    async def seconds(copies: int) -> float:
        timed.append(copies)
        return max(launches, 0.0) + text * copies

    assert asyncio.run(most_free(seconds, most)) == expected
    assert max(timed) <= max(1, most), "a batch was larger than the device takes"
