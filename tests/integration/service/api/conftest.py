"""Fixtures: one thread for all, as transformers runs beside the server, and models that are warm at once."""

import pytest
from bertscope_service.models import timed_runs

from tests.support.subjects import one_thread

__all__ = ["one_thread"]


@pytest.fixture
def short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models are warm after a few runs."""
    monkeypatch.setattr(timed_runs, "WARM_UP_SECONDS", 0.001)
