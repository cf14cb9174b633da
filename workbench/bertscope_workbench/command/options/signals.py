"""Ends a run by an exception when a signal asks for it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Ended(BaseException):
    """A signal other than Ctrl-C asked the process to end; its text is the signal's name."""


@contextmanager
def ended_by_signals() -> Iterator[Callable[[], None]]:
    """Raises KeyboardInterrupt at SIGINT, and Ended at SIGTERM and SIGHUP, inside the block. Signals that the process ignores,
    as one started by nohup does SIGHUP, stay ignored; only the main thread hears of signals.

    Python drops an exception that a signal raises in a destructor or a callback. The function that the block gets raises it
    again, so that the run ends at the next answer then.
    """
    received: list[BaseException] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(KeyboardInterrupt() if number == signal.SIGINT else Ended(signal.Signals(number).name))
        raise received[-1]

    def check() -> None:
        if received:
            raise received[-1]

    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    before = [(number, signal.getsignal(number)) for number in numbers]
    replaced = [pair for pair in before if pair[1] in (signal.SIG_DFL, signal.default_int_handler)]
    for number, _ in replaced:
        signal.signal(number, handle)
    try:
        yield check
    finally:
        for number, handler in replaced:
            signal.signal(number, handler)
