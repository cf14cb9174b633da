"""Divides things in order into groups of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def within(sizes: Sequence[int], limit: int) -> Iterator[slice]:
    """Yields consecutive groups of at most `limit` together, or of a single larger one."""
    begin = total = 0
    for index, size in enumerate(sizes):
        if index > begin and total + size > limit:
            yield slice(begin, index)
            begin, total = index, 0
        total += size
    if begin < len(sizes):
        yield slice(begin, len(sizes))
