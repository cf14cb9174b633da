"""Gives devices other limits of size than their own."""

from dataclasses import replace

import pytest
from bertscope_service.encoders.size_limits import LIMITS


def limit_sizes(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    """Sets some fields of SizeLimits for all devices, until the end of the test."""
    for kind, own in LIMITS.items():
        monkeypatch.setitem(LIMITS, kind, replace(own, **limits))
