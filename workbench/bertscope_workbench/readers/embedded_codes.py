"""Finds files of sparse codes: of the user's, and one that ships, of the embedded model."""

from __future__ import annotations

from pathlib import Path

from bertscope import SparseCodes

__all__ = ["embedded_codes"]

EMBEDDED = "embedded"
"""Stands for the file that ships."""
FILE = Path(__file__).with_name("embedded_codes.safetensors")


def embedded_codes() -> SparseCodes:
    """Returns sparse codes of the embedded model's state 3, the output of layer 2: 2,048 codes of 384 numbers, of which 32 are
    active at a piece. `SparseCodes.fit` has what they explain, `SparseCodes.about` what they were trained on."""
    return SparseCodes.load(FILE)


def read_codes(path: Path) -> SparseCodes:
    """Returns the codes of a file, or those that ship for "embedded". Raises OSError and InvalidArgument, as
    SparseCodes.load."""
    return embedded_codes() if str(path) == EMBEDDED else SparseCodes.load(path)
