"""CUDA graphs: operations recorded once, and done again on the same memory."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.pretended_gpu.memory import GPU
from tests.support.pretended_gpu.recording import note

_of_thread = threading.local()


class Graph:
    """What was captured. A replay is one launch."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []

    def pool(self) -> tuple[int, int]:
        return (0, 1)

    def add(self, step: Callable[[], None]) -> None:
        self._steps.append(step)

    def replay(self) -> None:
        note("launches", "graph")
        GPU.launched()
        for step in self._steps:
            step()


@contextmanager
def capture(graph: Graph, *, pool: object, stream: object, capture_error_mode: str) -> Iterator[None]:
    """Records the operations of this thread."""
    assert capture_error_mode == "thread_local", "a load in another thread would fail meanwhile"
    _of_thread.graph = graph
    try:
        yield
    finally:
        _of_thread.graph = None


def captured() -> Graph | None:
    """Returns the graph that is being captured in this thread."""
    graph: Graph | None = getattr(_of_thread, "graph", None)
    return graph


def forbid(what: str) -> None:
    """Raises if a graph is being captured, which may not wait for the device or copy from the host."""
    if captured() is not None:
        raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing ({what})")
