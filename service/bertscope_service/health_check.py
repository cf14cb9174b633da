"""`bertscope-server health`: whether a server serves, for probes where the workbench is not installed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

SECONDS = 8.0
"""Time for the answer; probes have a limit of 10 s."""


def run(argv: Sequence[str]) -> int:
    """Prints a server's health. Returns 0 if it serves, 1 if it doesn't or can't be reached."""
    import bertscope

    parser = argparse.ArgumentParser(
        prog="bertscope-server health",
        description="Say whether a server serves. TLS is set by BERTSCOPE_CA, BERTSCOPE_CERTIFICATE, BERTSCOPE_KEY and "
        "BERTSCOPE_SERVER_NAME.",
    )
    parser.add_argument("--target", metavar="HOST:PORT", help="the server; else BERTSCOPE_TARGET, else 127.0.0.1:50051")
    target = parser.parse_args(argv).target
    names = {"ca", "certificate", "key", "server_name"}
    given = {name: value for name in names if (value := os.environ.get(f"BERTSCOPE_{name.upper()}"))}
    try:
        tls = bertscope.Tls(**given) if given or os.environ.get("BERTSCOPE_TLS") else None
        with bertscope.Client(target, tls=tls, retries=0) as client:
            health = client.health(timeout=SECONDS)
    except (bertscope.BertscopeError, OSError) as error:
        print(f"bertscope-server health: {error}", file=sys.stderr)
        return 1
    print(health.status)
    return 0 if health.serving else 1
