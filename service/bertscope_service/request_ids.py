"""The id of a call, by which a caller finds it in the server's log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

REQUEST_ID = "x-request-id"

GOOD_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)


def request_id(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The caller's `x-request-id`, or a new one where there is none that a log can bear."""
    for name, value in metadata:
        if name == REQUEST_ID and isinstance(value, str) and GOOD_REQUEST_ID.fullmatch(value):
            return value
    return os.urandom(16).hex()
