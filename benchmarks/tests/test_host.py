"""Stages and threads of the server: what holds Python's lock, and what takes CPU time."""

import os

import pytest

from benchmarks.host import command, stages, threads
from benchmarks.lib.calls import Answers

SERVER = "thread (7): MainThread;main (/x/bertscope_service/__main__.py:1);run (/x/asyncio/runners.py:2)"
CALL = f"{SERVER};call (/x/bertscope_service/rpc/interceptors.py:3);work (/x/bertscope_service/api/answer.py:4)"
POOL = "thread (8): bertscope-interactive_0;_worker (/x/concurrent/futures/thread.py:5)"
ENCODE = f"{POOL};encode (/x/bertscope_service/checkpoints/tokenizer.py:5)"
HELD = stages.holders(
    f"""{SERVER} 10
{CALL} 10
{CALL};ClozePlan._likeliest.<locals>.<listcomp> (/x/bertscope_service/analyses/cloze.py:5) 20
{ENCODE} 30
{ENCODE};join (/x/json/encoder.py:6) 20
thread (9);elsewhere (/x/other.py:7) 10""",
    samples=250,
    unread=25,
)


def test_a_sample_belongs_to_the_innermost_stage_that_is_known() -> None:
    assert HELD.stages == {"tokenizer": 0.5, "reply": 0.2, "plan": 0.1, "loop": 0.1, threads.OTHER: 0.1}
    assert HELD.threads == {"interactive": 0.25, "loop": 0.2, threads.OTHER: 0.05}


def test_tables_have_no_column_of_zeros() -> None:
    cost = {"loop": 21.44, "interactive": 9.0, "gRPC": 0.1, threads.TOKENIZER: 110.0, threads.OTHER: 0.0}
    spent, held = command._tables({"cell": cost}, {"cell": HELD})
    assert spent.headings == ("call", "loop", "interactive", "tokenizer", "all")
    assert spent.rows == [("cell", "21.4  (20)", "9.0  (25)", "110.0      ", "140.5  (50)")]
    assert held.headings == ("call", "held", "tokenizer", "reply", "plan", "loop", "other")
    assert held.rows == [("cell", "50", "50", "20", "10", "10", "10")]
    (alone,) = command._tables({"cell": cost}, {})
    assert alone.rows == [("cell", "21.4", "9.0", "110.0", "140.5")]


def test_cpu_of_a_text_by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "py_spy", lambda: None)
    main, ended = os.getpid(), -1
    spent = threads.costs(main, [Answers([0.1, 0.1], threads={main: 8e-3, ended: 4e-3})], texts=10)
    assert {name: us for name, us in spent.items() if us} == {"loop": 400, threads.OTHER: 200}
    assert threads.costs(main, [Answers([0.1])], texts=10) == {}
