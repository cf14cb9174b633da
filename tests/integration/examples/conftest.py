"""Fixtures; see tests/integration/subjects.py."""

from tests.integration.subjects import one_thread

__all__ = ["one_thread"]
