"""Records what a pretended GPU does: launches, copies and waits, each with the line of our code that caused it."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

OURS = ("/bertscope_service/", "/transformers/")
TESTS = "/tests/"
OWN = "/pretended_gpu/"

Places = Counter[tuple[str, str]]
"""How often something happened: (what, FILE:LINE)."""


@dataclass
class Seen:
    """What happened on all pretended devices while somebody watched."""

    launches: Places = field(default_factory=Counter)
    """Operations that a GPU would start a kernel for."""
    waits: Places = field(default_factory=Counter)
    """Places at which the host waits for the device. An event that a batch ends with is not among them."""
    events: Places = field(default_factory=Counter)
    """Events that were waited for."""
    to_device: Places = field(default_factory=Counter)
    """Copies to a device: "pinned", "pageable" or "index"."""
    to_host: Places = field(default_factory=Counter)
    """Copies to the host: "non-blocking" or "blocking"."""

    def __str__(self) -> str:
        """Returns the counts, and the places of all but the launches."""
        lines = [f"{self.launches.total()} launches"]
        for name in ("waits", "events", "to_device", "to_host"):
            places: Places = getattr(self, name)
            lines += [f"{count} {name}: {what} at {where}" for (what, where), count in places.most_common()]
        return "\n".join(lines)


_watching: list[Seen] = []
_refusing: list[str] = []


@contextmanager
def watching() -> Iterator[Seen]:
    """Records what happens inside the block, in all threads."""
    seen = Seen()
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)


def set_sync_debug_mode(mode: str) -> None:
    """Lets waits be errors, or not any more, as PyTorch's function of that name does."""
    _refusing[:] = [mode] if mode == "error" else []


def note(kind: str, what: str, where: str | None = None) -> None:
    """Records one event of a kind, the name of a field of `Seen`. Raises RuntimeError for waits while they are errors."""
    if _refusing and kind == "waits":
        raise RuntimeError("called a synchronizing CUDA operation")
    if _watching:
        where = where or place()
        for seen in _watching:
            getattr(seen, kind)[what, where] += 1


def place() -> str:
    """Returns the nearest line of ours, or of transformers, below this call; of a test if there is none."""
    frame = sys._getframe(1)
    test = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if any(part in name for part in OURS):
            return f"{name.split('site-packages/')[-1].rpartition('bertscope_service/')[2]}:{frame.f_lineno}"
        if not test and TESTS in name and OWN not in name:
            test = f"tests/{name.rpartition(TESTS)[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return test or "?"
