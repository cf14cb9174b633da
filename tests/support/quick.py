"""Which values of a parameter `make test` runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """All values, of which the chosen ones alone are no slow tests."""
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.slow) for value in values]
