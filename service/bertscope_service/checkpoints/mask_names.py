"""Positions in texts whose "[MASK]" became a model's own mask token."""

from __future__ import annotations

from typing import TypeAlias

MASK = "[MASK]"
"""The mask in texts for every model, whatever its own mask token is."""

Moves: TypeAlias = tuple[tuple[int, int], ...]
"""Places in a rewritten text, ascending, and by how much positions from there on differ from those in the caller's text."""


def find_moves(text: str, own: str) -> Moves:
    """Returns the moves of a caller's text in which the mask token `own` replaces each "[MASK]"."""
    moves, shift, start = [], 0, text.find(MASK) if len(own) != len(MASK) else -1
    while start >= 0:
        shift += len(MASK) - len(own)
        moves.append((start + len(MASK) - shift, shift))
        start = text.find(MASK, start + len(MASK))
    return tuple(moves)


def move(place: int, moves: Moves) -> int:
    """Converts a position in the rewritten text to a position in the caller's text."""
    shift = 0
    for begin, by in moves:
        if place < begin:
            break
        shift = by
    return place + shift


def unmove(place: int, moves: Moves) -> int:
    """Converts a position in the caller's text, outside its masks, to a position in the rewritten text."""
    shift = 0
    for begin, by in moves:
        if place - by < begin:
            break
        shift = by
    return place - shift
