"""How much memory this process takes at most."""

import re
from pathlib import Path


def peak() -> int:
    """The most memory that this process has had since the last call, bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    Path("/proc/self/clear_refs").write_text("5")
    return int(found[1]) * 1024
