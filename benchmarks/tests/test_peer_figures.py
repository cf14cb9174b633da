"""What the comparison with other servers says of what their callers saw, and what it does without an installer."""

import sys
from pathlib import Path

import pytest

from benchmarks.peers.compare import Cell, Compared
from benchmarks.peers.environments import UnavailableError, interpreter
from benchmarks.peers.load import Reading
from benchmarks.peers.report import OURS, Row, table

TITLES = [OURS, "Triton", "KServe"]
SINGLE = Compared(
    Cell(length=32, callers=1, texts=1),
    {
        OURS: [Reading(1000.0, 0.9, 1.5), Reading(2000.0, 1.0, 1.6), Reading(1500.0, 1.1, 1.4)],
        "Triton": [Reading(500.0, 2.0, 2.5), Reading(500.0, 2.0, 2.5), Reading(500.0, 2.0, 2.5)],
    },
    bare=[0.5, 0.7, 0.6],
)
LARGE = Compared(
    Cell(length=128, callers=8, texts=32),
    {OURS: [Reading(95.0, 2700.0, 2900.0), Reading(90.0, 2800.0, 3000.0), Reading(102.0, 2500.0, 2600.0)]},
    bare=[100.0, 100.0, 100.0],
)


def test_ratios_are_those_of_a_round_and_their_median_counts() -> None:
    what, ours, triton, kserve, bare, to_triton, to_kserve, share = Row("2x128", SINGLE).cells(TITLES)
    assert what == "2x128, 32 tokens, 1 caller, 1 text a call"
    assert (ours, triton, kserve) == ("1500/s, 1 / 1.5 ms", "500/s, 2 / 2.5 ms", "-")
    assert bare == "0.60 ms"
    assert to_triton == "3.00 (2.00 to 4.00)"
    assert (to_kserve, share) == ("-", "")


def test_a_call_adds_its_median_less_that_of_the_bare_run_of_the_same_round() -> None:
    row = Row("2x128", SINGLE)
    assert row.is_single
    assert row.added(TITLES) == ["2x128, 32 tokens: a call adds", "0.40 ms (0.30 to 0.50)", "1.40 ms (1.30 to 1.50)", "-"]


def test_calls_with_many_texts_are_a_share_of_the_rate_in_process() -> None:
    row = Row("bert-base", LARGE)
    assert not row.is_single
    *_, bare, to_triton, _, share = row.cells(TITLES)
    assert (bare, to_triton, share) == ("100/s", "-", "0.95 (0.90 to 1.02)")


def test_the_table_has_a_line_for_each_cell_and_one_for_what_a_call_adds() -> None:
    assert table([Row("2x128", SINGLE), Row("bert-base", LARGE)], TITLES, "").row_count == 3


def test_every_round_is_there_for_machines() -> None:
    found = Row("2x128", SINGLE).as_json(TITLES)
    assert (found["length"], found["callers"], found["texts"]) == (32, 1, 1)
    assert [reading["rate"] for reading in found["readings"][OURS]] == [1000.0, 2000.0, 1500.0]
    assert found["ratios"] == {"Triton": [2.0, 4.0, 3.0], "KServe": []}


def test_without_uv_a_peer_is_unavailable_and_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UnavailableError, match="pip install uv"):
        interpreter(tmp_path / "peer", ["nothing"])
