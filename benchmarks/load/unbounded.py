"""Runs a server without the bound on a batch's time: `python -m benchmarks.load.unbounded`, with serve's flags."""

from __future__ import annotations

import sys

from bertscope_service.__main__ import run
from bertscope_service.engine.rate_estimate import BATCH_SECONDS
from bertscope_service.engine.rows import Priority

UNBOUNDED_SECONDS = 1e6

if __name__ == "__main__":
    BATCH_SECONDS[Priority.INTERACTIVE] = UNBOUNDED_SECONDS
    sys.exit(run())
