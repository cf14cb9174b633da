"""The event loop of a server's process."""

from __future__ import annotations

import asyncio
import importlib.util


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Returns a new loop: uvloop's where that exists, which answers small calls in less CPU time, else asyncio's own."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
