"""Fixtures: every architecture, by us and by transformers; see tests/support/subjects.py."""

from tests.support.subjects import one_thread, subject

__all__ = ["one_thread", "subject"]
