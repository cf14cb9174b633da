"""Makes the ids by which callers find their calls in the server's log."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

REQUEST_ID = "x-request-id"

GOOD_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)


def request_id(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """Returns the caller's `x-request-id`, or a new id if there is none that is safe to log."""
    for name, value in metadata:
        if name == REQUEST_ID and isinstance(value, str) and GOOD_REQUEST_ID.fullmatch(value):
            return value
    return f"{random.getrandbits(128):032x}"
