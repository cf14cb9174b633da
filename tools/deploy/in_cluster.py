"""Envoy's configuration for a cluster, from that for one machine."""

from __future__ import annotations

import re
from pathlib import Path

CONFIGURATION = Path("deploy/envoy/envoy.yaml")
SERVICE = "bertscope-headless"

LISTENER = "socket_address: {address: 127.0.0.1, port_value: 8080}"
ENDPOINT = re.compile(r"(- endpoint: .*address: )127\.0\.0\.1(, port_value: 5005\d)")


def rendered(root: Path) -> str:
    """Returns the configuration: it listens on every address, and balances over the pods that are ready. Raises ValueError if
    the one for a machine has another form than expected."""
    lines = (root / CONFIGURATION).read_text(encoding="utf-8").splitlines()
    (listener,) = (number for number, line in enumerate(lines) if LISTENER in line)
    lines[listener] = lines[listener].replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - in a pod, behind a NetworkPolicy
    first, second = (number for number, line in enumerate(lines) if ENDPOINT.search(line))
    lines[first] = ENDPOINT.sub(rf"\g<1>{SERVICE}\g<2>", lines[first])
    begin = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join([*lines[begin:second], *lines[second + 1 :], ""])
