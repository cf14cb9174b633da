"""Runs a bertscope server that reads its models only once a file exists.

`BENCH_GATE=FILE python -m benchmarks.servers.late_server` stands for a server with models that take long to load.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from bertscope_service.__main__ import run
from bertscope_service.checkpoints.sources import Source

GATE = "BENCH_GATE"
LOOK_SECONDS = 0.05


def main() -> int:
    """Returns the server's exit status."""
    gate, digest = Path(os.environ[GATE]), Source.digest

    def digest_later(source: Source, report: Any) -> str:
        while not gate.exists():
            time.sleep(LOOK_SECONDS)
        return digest(source, report)

    Source.digest = digest_later  # type: ignore[method-assign, assignment]
    return run()


if __name__ == "__main__":
    sys.exit(main())
