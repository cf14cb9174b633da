"""A row for each item, however often a run is cut short: the final file is that of an undisturbed one, byte for byte."""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import bertscope
import bertscope_workbench as workbench
import duckdb
import pandas
import polars
import pytest
from bertscope.values.results import Provenance
from bertscope_workbench.readers.items import identity, row_file, run

from tests.support.stored_outputs import outcome

SUFFIXES = [".csv", ".jsonl", ".parquet"]
WEIGHTS = {"a": "sha256:" + "a" * 64, "b": "sha256:" + "b" * 64}
TEXTS = [f'No. {n}: "twenty, three"' + ("\n\r and\tmore " if n % 5 == 0 else "") + "é" * (n % 3) for n in range(23)]


def source(weights: str = "a", torch: str = "2.15.0") -> Provenance:
    versions = {"torch": torch, "bertscope": "1.0"}
    return Provenance("models/m", WEIGHTS[weights], "torch", "cpu", "fp32", versions, "zero_based")


@dataclass(frozen=True)
class Length:
    text: str
    provenance: Provenance
    k: int

    def to_row(self) -> dict[str, Any]:
        size = len(self.text) / 3
        return {"length": size if self.k else float("nan"), "pieces": self.text.split()[: self.k], "seen": None}


class Server:
    """Answers like a stream of `Client`; at item `at` it does `event` first, once."""

    def __init__(self, at: int | None = None, event: Callable[[], object] = lambda: None, *, ahead: int = 3) -> None:
        self.at, self.event, self.ahead = at, event, ahead
        self.weights = "a"
        self.torch = "2.15.0"
        self.reject: tuple[str, ...] = ()
        self.asked: list[str] = []

    def lengths(self, texts: Iterator[str], *, k: int = 2, truncate: bool = False, on_rejected: Any = None) -> Iterator[Length]:
        queue: list[tuple[int, str]] = []
        for index, text in enumerate(texts):
            queue.append((index, text))
            if len(queue) > self.ahead:
                yield from self._answer(*queue.pop(0), k, on_rejected)
        for index, text in queue:
            yield from self._answer(index, text, k, on_rejected)

    def _answer(self, index: int, text: str, k: int, on_rejected: Any) -> Iterator[Length]:
        if self.at is not None and len(self.asked) >= self.at:
            self.at = None
            self.event()
        self.asked.append(text)
        if text in self.reject:
            violation = bertscope.FieldViolation(f"texts[{index}].text", "is too long")
            error = bertscope.InvalidArgument(f"texts[{index}].text is too long", field_violations=[violation])
            if on_rejected is None:
                raise error
            on_rejected(index, error)
            return
        yield Length(text, source(self.weights, self.torch), k)


def raising(error: BaseException) -> Callable[[], None]:
    def event() -> None:
        raise error

    return event


def write(path: Path, server: Server, **more: Any) -> workbench.WrittenItems:
    items = more.pop("items", TEXTS)
    return workbench.write_items(path, items, server.lengths, **{"options": {"k": 2}, "resume": True, **more})


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"rows{request.param}"


@pytest.fixture
def whole(path: Path) -> bytes:
    """The bytes of an undisturbed run."""
    other = path.with_name(f"whole{path.suffix}")
    assert write(other, Server(), resume=False) == workbench.WrittenItems(other, 23, 0, 0)
    return other.read_bytes()


def rows_of(path: Path) -> list[dict[str, Any]]:
    found: Any = {
        ".csv": pandas.read_csv,
        ".jsonl": lambda p: pandas.read_json(p, lines=True),
        ".parquet": pandas.read_parquet,
    }[path.suffix](path)
    return found.to_dict("records")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "event"), [(1, KeyboardInterrupt()), (9, bertscope.InternalError("a bug")), (22, OSError(errno.EIO, "no"))]
)
def test_a_run_that_ends_early_keeps_its_rows_and_goes_on(path: Path, whole: bytes, at: int, event: BaseException) -> None:
    with pytest.raises(type(event)):
        write(path, Server(at, raising(event)), resume=False)
    assert [row["text"] for row in rows_of(path)] == TEXTS[:at]
    rest = Server()
    assert write(path, rest) == workbench.WrittenItems(path, 23, at, 0)
    assert rest.asked == TEXTS[at:]
    assert path.read_bytes() == whole
    assert sorted(each.name for each in path.parent.iterdir()) == sorted({path.name, f"whole{path.suffix}"})


@pytest.mark.slow
@pytest.mark.parametrize("name", [".parquet"])
def test_a_signal_at_any_line_ends_with_the_rows_that_were_told(tmp_path: Path, name: str) -> None:
    """A signal's exception is raised between any two lines of the code that writes a row and tells of it."""
    lines = 0
    while True:
        lines += 1
        path = tmp_path / f"{lines}{name}"
        told = [0]
        with raised_at_line(lines) as raised, suppress(KeyboardInterrupt):
            write(path, Server(), items=TEXTS[:5], on_progress=lambda event, told=told: told.append(event.rows))
        if not raised:
            break
        rows = len(rows_of(path)) if path.exists() else 0
        assert told[-1] == rows, f"after a signal at line {lines} of those that write a row"
        write(path, Server(), items=TEXTS[:5])
        assert len(rows_of(path)) == 5
    assert lines > 5 * 8


@contextmanager
def raised_at_line(number: int) -> Iterator[list[int]]:
    """Raises KeyboardInterrupt once, at a line executed by the functions that write rows; the list has its number then."""
    written = (run._Run._answer.__code__, row_file.RowFile.append.__code__)
    raised: list[int] = []
    left = number

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code not in written:
            return None
        if event == "line" and not raised:
            left -= 1
            if not left:
                raised.append(frame.f_lineno)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield raised
    finally:
        sys.settrace(before)


def test_a_run_that_answered_nothing_leaves_nothing(path: Path) -> None:
    with pytest.raises(bertscope.Unavailable):
        write(path, Server(0, raising(bertscope.Unavailable("no server"))))
    assert not [*path.parent.iterdir()]


@pytest.mark.slow
def test_a_killed_process_costs_at_most_a_line(path: Path, whole: bytes) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(path, Server(22, raising(KeyboardInterrupt())))
    grows = path.with_name(path.name + row_file.JOURNAL) if path.suffix == ".parquet" else path
    data = grows.read_bytes()
    for end in (*range(0, 700, 13), len(data) - 1, len(data)):
        grows.write_bytes(data[:end])
        if grows != path:
            path.unlink(missing_ok=True)
        write(path, Server())
        assert path.read_bytes() == whole


def test_a_whole_file_is_left_as_it_is_and_new_items_are_added(path: Path, whole: bytes) -> None:
    read = 0

    def items() -> Iterator[str]:
        nonlocal read
        for text in TEXTS:
            read += 1
            yield text

    ahead: list[int] = []
    write(path, Server(), items=TEXTS[:10])
    write(path, Server(), items=items(), on_progress=lambda event: ahead.append(read - event.done))
    assert path.read_bytes() == whole
    assert max(ahead) <= 4  # items are read as they are needed
    server = Server()
    assert write(path, server) == workbench.WrittenItems(path, 23, 23, 0)
    assert not server.asked
    assert path.read_bytes() == whole
    with pytest.raises(bertscope.FailedPrecondition, match="exists; go on with it by resume=True, or write to another file"):
        write(path, Server(), resume=False)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"options": {"k": 3}}, "the option k was 2 and is 3 now; give the same k, or write to another file"),
        ({"options": {"k": 2, "truncate": True}}, "the option truncate was null and is true now"),
        ({"items": ["x", *TEXTS[1:]]}, "its row for item 1 is about another item; give the same items"),
        ({"items": [*TEXTS[:4], "x", *TEXTS[5:]]}, "its row for item 5 is about another item"),
        ({"items": TEXTS[:3]}, "it has a row for item 4, which is not among the items"),
        ({"items": [workbench.Item(text, {"sentence": text}) for text in TEXTS]}, "its row for item 1 is about another"),
    ],
)
def test_a_file_of_another_run_is_refused(path: Path, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(path, Server(9, raising(KeyboardInterrupt())))
    before = path.read_bytes()
    server = Server()
    with pytest.raises(bertscope.FailedPrecondition) as caught:
        write(path, server, **more)
    assert str(caught.value).startswith(f"{path} cannot go on: {problem}")
    assert not server.asked
    assert path.read_bytes() == before


def test_another_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, Server())
    monkeypatch.setattr(run, "__version__", "99.0")
    with pytest.raises(bertscope.FailedPrecondition, match=r"bertscope's version was .* and is 99\.0 now; use that version"):
        write(path, Server())


@pytest.mark.parametrize("content", ["a,b\n1,2\n", '{"a": 1}\n', '{"a": 1}', 'a,"b\n1,2\n', "[1]\n", '"a"b,c\n1,2\n', "\xff\n"])
def test_files_of_others_are_refused_and_left(tmp_path: Path, content: str) -> None:
    for suffix in (".csv", ".jsonl", ".parquet"):
        path = tmp_path / f"rows{suffix}"
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises((bertscope.FailedPrecondition, bertscope.InvalidArgument), match="write to another file"):
            write(path, Server())
        assert path.read_bytes() == content.encode("latin-1")


def test_a_lost_server_costs_a_retry_and_not_a_row(path: Path, whole: bytes) -> None:
    lost = [
        bertscope.Unavailable("gone", retry_after=1e-3),
        bertscope.FailedPrecondition("loading", reason="MODEL_NOT_READY", retry_after=1e-3),
        bertscope.Unavailable("starting", reason="SERVER_STARTING", retry_after=1e-3),
        bertscope.ResourceExhausted("busy", retry_after=1e-3),
    ]

    def event() -> None:
        if lost:
            server.at = len(server.asked) + len(lost) % 2
            raise lost.pop()

    server = Server(7, event)
    seen = []
    write(path, server, on_progress=seen.append)
    assert not lost
    assert path.read_bytes() == whole
    assert server.asked == TEXTS  # nothing twice
    assert seen == [workbench.RowsProgress(done, 23, done) for done in range(1, 24)]


def test_a_server_that_is_lost_again_before_it_took_all_costs_no_row(path: Path, whole: bytes) -> None:
    taken = [1, 0, 3]  # Each attempt takes fewer items ahead than the one before had.

    def event() -> None:
        if taken:
            server.ahead, server.at = taken.pop(0), len(server.asked)
            raise bertscope.Unavailable("starting", reason="SERVER_STARTING", retry_after=1e-3)

    server = Server(7, event, ahead=9)
    write(path, server)
    assert not taken
    assert path.read_bytes() == whole
    assert server.asked == TEXTS


def test_patience_ends_and_is_for_what_waiting_mends(path: Path) -> None:
    for error in (bertscope.FailedPrecondition("not finite"), bertscope.NotFound("none", reason="MODEL_NOT_FOUND")):
        other = path.with_name(f"{type(error).__name__}{path.suffix}")
        with pytest.raises(type(error), match=str(error)):
            write(other, Server(7, raising(error)))
        assert len(rows_of(other)) == 7
    gone = raising(bertscope.Unavailable("gone"))
    with pytest.raises(bertscope.Unavailable):
        write(path, Server(7, gone), patience=0)
    assert len(rows_of(path)) == 7
    with pytest.raises(bertscope.Unavailable):  # a run that goes on has not been answered, either
        write(path, Server(0, gone))
    for patience in (-1, float("nan")):
        with pytest.raises(bertscope.InvalidArgument, match="patience: must be 0 or more seconds"):
            write(path, Server(), patience=patience)


def test_rejected_items_are_named_and_left_out(path: Path) -> None:
    server = Server()
    server.reject = (TEXTS[0], TEXTS[6], TEXTS[22])
    with pytest.raises(bertscope.InvalidArgument, match=r"^item 1 is too long$"):
        write(path, server)
    rejected: list[int] = []
    more = {"on_rejected": lambda item, error: rejected.append(item.number)}
    cut = Server(12, raising(KeyboardInterrupt()))
    cut.reject = server.reject
    with pytest.raises(KeyboardInterrupt):
        write(path, cut, **more)
    assert rejected == [1, 7]
    assert write(path, server, **more) == workbench.WrittenItems(path, 20, 10, 1)
    assert rejected == [1, 7, 23]
    other = path.with_name(f"other{path.suffix}")
    write(other, server, **more)
    assert other.read_bytes() == path.read_bytes()
    with pytest.raises(bertscope.FailedPrecondition, match="it has no row for item 1; give the same file, or leave rejected"):
        write(path, server)


def test_a_full_disk_leaves_whole_rows(path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    left = 1500

    def full(file: int, data: memoryview) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = real(file, data[: min(left, 100)])
        left -= size
        return size

    real = os.write
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        write(path, Server())
    monkeypatch.undo()
    rows = rows_of(path)
    assert 0 < len(rows) < 23 and [row["text"] for row in rows] == TEXTS[: len(rows)]
    write(path, Server())
    assert path.read_bytes() == whole


def test_two_runs_do_not_write_the_same_file(path: Path) -> None:
    def again() -> None:
        with pytest.raises(bertscope.FailedPrecondition, match="another process writes"):
            write(path, Server())

    write(path, Server(5, again))
    assert len(rows_of(path)) == 23


@pytest.mark.slow
def test_pandas_polars_and_duckdb_read_the_same(path: Path) -> None:
    write(path, Server())
    suffix = path.suffix
    by_polars: Any = {".csv": polars.read_csv, ".jsonl": polars.read_ndjson, ".parquet": polars.read_parquet}[suffix](path)
    reader = {".csv": "read_csv", ".jsonl": "read_json", ".parquet": "read_parquet"}[suffix]
    with duckdb.connect() as connection:
        names = "item, text, length, weights, options"
        by_duckdb = connection.execute(f"select {names} from {reader}('{path}') order by item").fetchall()
    wanted = [
        (n, text, len(text) / 3, WEIGHTS["a"], '{"k": 2, "question": "lengths"}') for n, text in enumerate(TEXTS, start=1)
    ]
    assert by_polars.select(names.split(", ")).rows() == wanted
    assert [
        (*row[:4], json.dumps(json.loads(row[4])) if isinstance(row[4], str) else json.dumps(row[4])) for row in by_duckdb
    ] == wanted
    assert [tuple(row[name] for name in names.split(", ")) for row in rows_of(path)] == wanted
    if suffix == ".parquet":
        assert by_polars.schema["pieces"] == polars.List(polars.String)
        assert by_polars.schema["seen"] == polars.String


def test_columns_of_several_types_are_texts_in_parquet(tmp_path: Path) -> None:
    values = [1, 2.5, "x", None, True, [1], float("inf")]
    items = [workbench.Item("t", {"mixed": value, "number": 1 if index % 2 else 0.5}) for index, value in enumerate(values)]
    path = tmp_path / "rows.parquet"
    write(path, Server(), items=items)
    found = pandas.read_parquet(path)
    assert [None if pandas.isna(text) else text for text in found["mixed"]] == ["1", "2.5", '"x"', None, "true", "[1]", None]
    assert found["number"].tolist() == [0.5, 1.0, 0.5, 1.0, 0.5, 1.0, 0.5]


def test_items_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a", "id": 7}\n\n{"text": "b", "tags": ["x"]}\n')
    items = workbench.ItemFile(path, workbench.TEXTS)
    assert (items.total, items.columns) == (2, ("text", "id", "tags"))
    assert [(item.number, item.value) for item in items] == [(1, "a"), (3, "b")]
    write(tmp_path / "out.jsonl", Server(), items=items)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["line"], row["id"], row["tags"]) for row in rows] == [(1, 7, None), (3, None, ["x"])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [("weights", "b", "the digest of the weights was"), ("torch", "2.16.0", "the server's version of torch was")],
)
def test_other_weights_and_versions_are_refused(path: Path, whole: bytes, name: str, value: str, problem: str) -> None:
    server = Server(9)
    server.event = lambda: setattr(server, name, value)
    for _ in range(2):  # while it runs, and when it goes on
        with pytest.raises(bertscope.FailedPrecondition, match=problem):
            write(path, server)
        assert [row["text"] for row in rows_of(path)] == TEXTS[:9]
    write(path, Server())
    assert path.read_bytes() == whole


def test_what_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo.csv")
    many = {"k": 1, "candidates": ["word"] * 100, "heads": bertscope.zero(1, [2]), "none": None, "timeout": 3, "model": "m"}
    items: list[Any] = [[workbench.Item("t", {name: 1})] for name in ("length", "model", "item")]
    items += [[workbench.Item("t", {"a": 1}), workbench.Item("t", {"a": 1, "b": 2})], [("a", "b", "c")], "text"]
    stored(
        columns_that_are_not_free=[
            outcome(lambda given=given: write(Path("rows.csv"), Server(), items=given)) for given in items
        ],
        files=[outcome(lambda name=name: write(Path(name), Server())) for name in ("rows.xlsx", "fifo.csv")],
        long_options=json.loads(identity.options_text(many)),
    )


def test_lines_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    """A quote that is never closed is not one broken line."""
    monkeypatch.chdir(tmp_path)
    files = {
        "broken.tsv": b"text\tn\na\t1\nb\n\t3\nc\xff\t4\nd\t5\n",
        "none.tsv": b"text\n\xff\n",
        "open.csv": b'text,n\na,1\n"b"c,2\nd,3\n"open,4\ne,5\n',
        "long.csv": b"text,n\na," + b"1" * 140_000 + b"\n",
    }
    for name, content in files.items():
        Path(name).write_bytes(content)
    broken: list[Any] = []
    items = workbench.ItemFile("broken.tsv", workbench.TEXTS, on_broken=broken.append)
    stored(
        items=[items.total, items.left_out, *items],
        left_out=broken,
        refused=[
            lambda: workbench.ItemFile("broken.tsv", workbench.TEXTS),
            lambda: workbench.ItemFile("none.tsv", workbench.TEXTS, on_broken=lambda error: None),
            lambda: workbench.ItemFile("open.csv", workbench.TEXTS, on_broken=lambda error: None),
            lambda: workbench.ItemFile("long.csv", workbench.TEXTS),
        ],
    )


def test_if_every_item_is_rejected_there_is_no_file(path: Path) -> None:
    server = Server()
    server.reject = tuple(TEXTS)
    for items in (TEXTS, []):
        with pytest.raises(bertscope.InvalidArgument, match="no row to write"):
            write(path, server, items=items, on_rejected=lambda item, error: None)
    assert not path.exists()
