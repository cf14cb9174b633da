"""Fixtures: one thread for all, as transformers runs beside the server."""

from tests.support.subjects import one_thread

__all__ = ["one_thread"]
