"""Fixtures; see tests/support/subjects.py."""

from tests.support.subjects import one_thread

__all__ = ["one_thread"]
