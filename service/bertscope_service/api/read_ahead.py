"""Limits of the tensors that are computed ahead of the readers of streams."""

from __future__ import annotations

WINDOW_BYTES = 48 * 1024 * 1024
"""Maximum size of the tensors that are computed ahead of one reader, bytes. The text that is read now is always computed."""

ALL_WINDOWS_BYTES = 1024 * 1024 * 1024
"""Maximum size of the tensors that are computed ahead of all readers together, bytes."""


class ReadAhead:
    """Counts the tensors that are computed ahead of all readers, bytes. Belongs to the event loop."""

    def __init__(self) -> None:
        self.bytes = 0

    def fits(self, ahead_bytes: int, more_bytes: int) -> bool:
        """Checks that a stream which is `ahead_bytes` ahead may run another text."""
        return ahead_bytes + more_bytes <= WINDOW_BYTES and self.bytes + more_bytes <= ALL_WINDOWS_BYTES
