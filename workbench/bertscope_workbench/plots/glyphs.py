"""Silences what matplotlib says of characters that no font of the machine has."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

GLYPH = re.compile("Glyph .* missing from")
"""matplotlib's warning of a character that no font has, one for each."""


@contextmanager
def boxes_unmentioned() -> Iterator[None]:
    """Silences the warnings about characters that the font lacks, one for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=GLYPH.pattern, category=UserWarning)
        yield
