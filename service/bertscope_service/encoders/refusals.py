"""Errors of checkpoints whose files contain impossible values."""

from __future__ import annotations

from pathlib import Path

from bertscope_service.errors import FailedPrecondition

SHOWN_CHARACTERS = 60
"""Maximum length of a found value in a message; longer ones are cut."""


def unreadable(source: object, message: str) -> FailedPrecondition:
    """Returns the error for a source that can't be hosted as it is."""
    return FailedPrecondition(message, "SOURCE_UNREADABLE", source=source)


def refused(path: Path, field: str, found: object, allowed: str, reason: str = "SOURCE_UNREADABLE") -> FailedPrecondition:
    """Returns an error that names a file's `field`, its value `found`, and the allowed ones."""
    message = f"{path}: {field} is {shown(found)}; {allowed}"
    return FailedPrecondition(message, reason, source=path.parent, field=field, found=shown(found))


def shown(value: object) -> str:
    """Returns a value as shown in a message: on one line, and short."""
    try:
        # Formatting a number of thousands of digits is slow, and an error beyond some thousands.
        text = f"a number of {value.bit_length()} bits" if isinstance(value, int) and abs(value) >> 64 else repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
