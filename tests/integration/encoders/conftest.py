"""Fixtures: every architecture, by us and by transformers; see tests/integration/subjects.py."""

from tests.integration.subjects import one_thread, subject

__all__ = ["one_thread", "subject"]
