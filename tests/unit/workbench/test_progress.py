"""Long work shows that it goes on, with a terminal and without one; short work without one says nothing."""

import io

import pytest
from bertscope_workbench.command.views import progress
from rich.console import Console

from tests.support.patience import wait_until


@pytest.fixture
def log(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(progress, "console", lambda stderr: Console(file=file, markup=False, highlight=False, width=160))
    return file


def test_without_a_terminal_there_is_a_line_now_and_then(log, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    with progress.studying() as show:
        show("training [1]", 3, 10)
        wait_until(lambda: "training [1], 3 of 10, 0:00:0" in log.getvalue(), "a stage is told")
        show("scoring", 5, None)
        wait_until(lambda: "scoring, 5 done, 0:00:0" in log.getvalue(), "the next stage is told")
    with progress.waiting("reading"):
        wait_until(lambda: "reading, 0:00:0" in log.getvalue(), "what has no number is told")
    with progress.benchmarking("measuring"):
        wait_until(lambda: "measuring, 0 %, 0:00:0" in log.getvalue(), "a share is told")
    assert "\x1b" not in log.getvalue()


def test_short_work_says_nothing(log):
    with progress.studying() as show:
        show("training", 3, 10)
    assert log.getvalue() == ""
