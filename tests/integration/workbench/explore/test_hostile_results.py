"""Files that would take the page's time or memory are refused, others are answered meanwhile, and odd values are shown."""

import datetime
import decimal
import io
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bertscope_workbench.explore.questions import results

from tests.support.page import opened
from tests.support.patience import wait_until

MILLION = 1_000_000
WAITS = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid()))\nwhile True: time.sleep(60)"


def parquet(table, **options):
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd", **options)
    return file.getvalue()


def repeated(length, times):
    """One column of lists, each of the same number."""
    values = pa.array([7] * length)
    lists = pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), values)
    return pa.table({"a": pa.chunked_array([lists] * times)})


@pytest.mark.slow
def test_two_million_rows_of_a_few_kilobytes(page):
    raw = parquet(pa.table({"a": [0] * (2 * MILLION)}))
    assert len(raw) < 10_000
    assert "more than 200,000 rows" in page.refusal("results", opened("x.parquet", raw))["message"]


@pytest.mark.slow
def test_millions_of_values_in_few_rows(page):
    raw = parquet(repeated(MILLION, 40))
    assert len(raw) < 100_000
    assert "more than 4,000,000 values" in page.refusal("results", opened("x.parquet", raw))["message"]


@pytest.mark.slow
def test_gigabytes_of_equal_texts_in_few_values(page):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 3000), pa.array(["x" * MILLION]))
    raw = parquet(pa.table({"a": texts}))
    assert len(raw) < 100_000
    message = page.refusal("results", opened("x.parquet", raw))["message"]
    assert "memory" in message


def test_a_file_that_takes_long_keeps_nobody_waiting(page, monkeypatch, tmp_path):
    """The reader is one that never ends: the page answers others, and ends it when its tab goes away."""
    pid = tmp_path / "pid"
    monkeypatch.setattr(results_module(), "READER", (sys.executable, "-c", WAITS, str(pid)))
    reply = page.open("results", opened("x.csv", b"n\n1\n"))  # Its head; the events come when the file is read.
    wait_until(lambda: pid.exists() and pid.read_text(), "the reader runs")
    assert page.ask("models", {})[-1]["models"]
    reply.close()
    wait_until(lambda: not Path(f"/proc/{pid.read_text()}").exists(), "the reader has ended")


def results_module():
    return sys.modules[results.__module__]


@pytest.mark.parametrize(
    ("code", "part"),
    [
        pytest.param(
            "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass",
            "processor time",
            marks=pytest.mark.slow,
        ),
        ("import os; os.abort()", "memory"),
    ],
)
def test_a_reader_that_the_system_ends(page, monkeypatch, code, part):
    monkeypatch.setattr(results_module(), "READER", (sys.executable, "-c", code))
    assert part in page.refusal("results", opened("x.csv", b"n\n1\n"))["message"]


@pytest.mark.slow
def test_values_of_every_type_are_shown(page):
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    identity = uuid.UUID(int=5)
    columns = {
        "bytes": pa.array([b"\x00\xff"]),
        "decimal": pa.array([decimal.Decimal("1.25")]),
        "duration": pa.array([datetime.timedelta(seconds=90)]),
        "when": pa.array([when]),
        "date": pa.array([when.date()]),
        "time": pa.array([when.time()]),
        "large": pa.array([2**60]),
        "list": pa.array([[decimal.Decimal("0.5"), None]]),
        "pairs": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "inner": pa.array([{"raw": b"\x01"}]),
        "fixed": pa.array([identity.bytes], pa.binary(16)),
        "none": pa.array([None], pa.null()),
        "nan": pa.array([float("nan")]),
        "long": pa.array(["x" * 5000]),
    }
    (event,) = page.ask("results", opened("x.parquet", parquet(pa.table(columns))))
    row = dict(zip(event["table"]["columns"], event["table"]["rows"][0], strict=True))
    assert row == {
        "bytes": "0x00ff",
        "decimal": 1.25,
        "duration": "0:01:30",
        "when": "2026-01-02T03:04:05+00:00",
        "date": "2026-01-02",
        "time": "03:04:05",
        "large": str(2**60),
        "list": "[0.5, null]",
        "pairs": '[["a", 1]]',
        "inner.raw": "0x01",
        "fixed": "0x" + identity.bytes.hex(),
        "none": None,
        "nan": None,
        "long": "x" * 1000 + "…",
    }
