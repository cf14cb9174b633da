"""Fixtures of the studies."""

import pytest
from bertscope_service.models import timed_runs as benchmark_runs

from tests.support.subjects import one_thread

__all__ = ["one_thread"]


@pytest.fixture(autouse=True)
def short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models are warm after a few runs."""
    monkeypatch.setattr(benchmark_runs, "WARM_UP_SECONDS", 0.001)
