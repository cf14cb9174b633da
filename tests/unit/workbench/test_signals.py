"""Signals end a run of the command, wherever they come."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bertscope_workbench.command.options.going_on import KeptFile, until_ended
from bertscope_workbench.command.options.items import stopped_in_one_line
from bertscope_workbench.command.options.signals import Ended, ended_by_signals
from bertscope_workbench.command.views.output import Interrupted, Terminated

KINDS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Ended, signal.SIGHUP: Ended}


class Signalled:
    """Gets a signal while it is destroyed, where Python drops what the signal raises."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        sum(range(1000))  # the handler runs between two instructions


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """Gives each signal the handler of a fresh process, whatever this one was started with, and restores what it had."""
    before = {number: signal.getsignal(number) for number in KINDS}
    for number in KINDS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", KINDS, ids=lambda number: number.name)
def test_a_signal_in_a_destructor_ends_the_run_at_the_next_answer(number: signal.Signals) -> None:
    answers: list[int] = []

    def run() -> None:
        with ended_by_signals() as check:
            for answer in range(3):
                check()
                answers.append(answer)
                Signalled(number)  # destroyed at once

    with pytest.raises(KINDS[number]):
        run()
    assert answers == [0]
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


@pytest.mark.parametrize("number", KINDS, ids=lambda number: number.name)
def test_a_signal_ends_the_run_at_once(number: signal.Signals) -> None:
    error = Interrupted if number == signal.SIGINT else Terminated
    said = "interrupted; go on" if number == signal.SIGINT else f"ended by {number.name}; go on"

    def run() -> None:
        with stopped_in_one_line(None, lambda: "; go on"):
            os.kill(os.getpid(), number)
            sum(range(1000))

    with pytest.raises(error, match=said):
        run()


def test_a_signal_that_the_process_ignores_stays_ignored() -> None:
    """nohup bertscope ... goes on when its terminal is closed."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ended_by_signals() as check:
        os.kill(os.getpid(), signal.SIGHUP)
        check()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("number", KINDS, ids=lambda number: number.name)
def test_long_work_that_is_ended_gives_what_it_found(tmp_path: Path, number: signal.Signals) -> None:
    kept = KeptFile[str](tmp_path / "kept", lambda found, path: path.write_text(found))

    def work(came: Callable[[], None]) -> str:
        came()
        os.kill(os.getpid(), number)
        sum(range(1000))
        return "all"

    found, stopped = until_ended(work, lambda why: f"some: {why}", kept)
    assert isinstance(stopped, KeyboardInterrupt if number == signal.SIGINT else Terminated)
    assert found == ("some: interrupted" if number == signal.SIGINT else f"some: ended by {number.name}")
    assert (tmp_path / "kept").read_text() == "some: the process was killed"
    kept.drop(tmp_path / "output")
    assert not [*tmp_path.iterdir()]
