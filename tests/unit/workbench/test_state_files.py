"""Hidden states in files: every format gives them back, in constant memory, and appears whole or not at all."""

import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pyarrow.parquet
import pytest
from bertscope.values.results import Provenance
from bertscope_workbench.readers import state_formats
from bertscope_workbench.readers.items.part_files import PartFiles, part_of
from safetensors import safe_open
from safetensors.numpy import load_file

SUFFIXES = [".parquet", ".npy", ".safetensors"]
TEXTS = ["a bb ccc", ("dddd", "eeeee"), "f", "gg hhh", "iiii jj k"]
LAYERS, SIZE = (0, 2), 3
SOURCE = Provenance("models/m", "sha256:" + "a" * 64, "torch", "cpu", "fp32", {"torch": "2.15.0"}, "zero_based")
Rows = dict[tuple[int, int], tuple[tuple[Any, ...], list[list[float]]]]


class Server:
    """Answers like `Client.extract_hidden_states`; it reads ahead, and at text `at` raises an error. Counts the
    tensors that are alive."""

    def __init__(self, at: int | None = None, error: BaseException | None = None, reject: str = "") -> None:
        self.at, self.error, self.reject = at, error, reject
        self.alive = self.most = 0

    def states(
        self, texts: Iterator[Any], *, unit: str = "piece", dtype: str = "float32", on_rejected: Any = None
    ) -> Iterator[bertscope.HiddenStates]:
        queue: list[tuple[int, Any]] = []
        for index, text in enumerate(texts):
            queue.append((index, text))
            if len(queue) > 3:
                yield from self._answer(*queue.pop(0), unit, dtype, on_rejected)
        for index, text in queue:
            yield from self._answer(index, text, unit, dtype, on_rejected)

    def _answer(self, index: int, text: Any, unit: str, dtype: str, on_rejected: Any) -> Iterator[bertscope.HiddenStates]:
        if index == self.at and self.error is not None:
            raise self.error
        if text == self.reject:
            violation = bertscope.FieldViolation(f"inputs[{index}].text", "is too long")
            error = bertscope.InvalidArgument(f"inputs[{index}].text is too long", field_violations=[violation])
            if on_rejected is None:
                raise error
            on_rejected(index, error)
            return
        found = states(index, text, unit, dtype)
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(found.states, self._gone)
        yield found

    def _gone(self) -> None:
        self.alive -= 1


def states(index: int, text: Any, unit: str = "piece", dtype: str = "float32") -> bertscope.HiddenStates:
    parts = text if isinstance(text, tuple) else (text,)
    tokens = [
        bertscope.Token(word, None, part.index(word), part.index(word) + len(word), False, None, segment, ())
        for segment, part in enumerate(parts)
        for word in part.split()
    ]
    shape = (len(LAYERS), len(tokens) if unit == "piece" else 1, SIZE)
    values = np.random.default_rng(index).normal(size=shape).astype(dtype)
    kept = tuple(tokens) if unit == "piece" else ()
    pooling = "" if unit == "piece" else "mean"
    return bertscope.HiddenStates(index, parts[0], None, kept, values, LAYERS, index % 2, SOURCE, unit, pooling)


def read(path: Path, key: str = "item") -> Rows:
    """Returns, by text and row, what a row is and its states, from a file of any format."""
    if path.suffix == ".parquet":
        rows: Rows = {}
        for row in pyarrow.parquet.read_table(path).to_pylist():
            place = tuple(row[name] for name in ("token", "segment", "start", "end"))
            rows.setdefault((row[key], row["row"]), (place, []))[1].append(row["state"])
        return rows
    lines = [json.loads(line) for line in path.with_name(f"{path.name}.jsonl").read_text().splitlines()]
    if path.suffix == ".npy":
        array = np.load(path, mmap_mode="r")
        assert len(array) == len(lines)
        vectors = [array[line["index"]] for line in lines]
    else:
        index = path.with_name(f"{path.name}.index.json")
        places = json.loads(index.read_text())["weight_map"] if index.exists() else {}
        files = {name: load_file(path.with_name(name)) for name in {*places.values()} or {path.name}}
        vectors = [files[places.get(line["tensor"], path.name)][line["tensor"]][:, line["row"]] for line in lines]
    names = ("token", "segment", "start", "end")
    return {
        (line[key], line["row"]): (tuple(line.get(name) for name in names), vector.tolist())
        for line, vector in zip(lines, vectors, strict=True)
    }


def expected(texts: list[Any], **more: Any) -> Rows:
    found: Rows = {}
    for number, text in enumerate(texts):
        one = states(number, text, **more)
        for row in range(one.states.shape[1]):
            unit = one.tokens[row] if one.tokens else None
            place = (None,) * 4 if unit is None else (unit.text, unit.segment, unit.start, unit.end)
            found[number + 1, row] = place, one.states[:, row].tolist()
    return found


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"states{request.param}"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups and shards of two texts or so."""
    monkeypatch.setattr(state_formats, "GROUP_BYTES", 100)
    monkeypatch.setattr(state_formats, "SHARD_BYTES", 100)


@pytest.mark.parametrize("options", [{}, {"dtype": "float16"}, {"unit": "text"}])
def test_what_is_written_is_read(path: Path, options: dict[str, str]) -> None:
    written = workbench.write_states(path, TEXTS, Server().states, options=options)
    wanted = expected(TEXTS, **options)
    assert read(path) == wanted
    dtype = options.get("dtype", "float32")
    assert written == workbench.WrittenStates(written.paths, 5, len(wanted), LAYERS, SIZE, dtype, 2, 0)
    assert sorted(written.paths) == sorted(path.parent.iterdir()) and written.paths[-1] == path
    assert {each.stat().st_mode for each in written.paths} == {path.stat().st_mode}


def test_files_say_where_the_states_come_from(path: Path) -> None:
    workbench.write_states(path, TEXTS, Server().states, options={"unit": "text"})
    about: Any = {
        ".parquet": lambda: {k.decode(): v.decode() for k, v in pyarrow.parquet.read_schema(path).metadata.items()},
        ".npy": lambda: json.loads(path.with_name("states.npy.json").read_text()),
        ".safetensors": lambda: _metadata(path),
    }[path.suffix]()
    assert about["model"] == "models/m" and about["weights"] == SOURCE.weights_digest
    assert (about["layers"], about["unit"], about["options"]) == ("[0, 2]", "text", '{"unit": "text"}')


def _metadata(path: Path) -> dict[str, str]:
    with safe_open(path, framework="np") as file:
        return dict(file.metadata())


@pytest.mark.usefixtures("small")
def test_shards_and_groups_give_back_the_same(path: Path) -> None:
    assert workbench.write_states(path, TEXTS, Server().states).paths[-1].name.startswith("states")
    assert read(path) == expected(TEXTS)
    shards = sorted(each.name for each in path.parent.glob("states-*"))
    if path.suffix == ".safetensors":
        assert shards == [f"states-0000{number}-of-00004.safetensors" for number in (1, 2, 3, 4)]
        assert not path.exists()
        metadata = json.loads(path.with_name(f"{path.name}.index.json").read_text())["metadata"]
        assert metadata["total_size"] == sum(states(number, text).states.nbytes for number, text in enumerate(TEXTS))
        with pytest.raises(bertscope.FailedPrecondition, match="exists; put another in its place by replace=True"):
            workbench.write_states(path, TEXTS, Server().states)
        workbench.write_states(path, TEXTS[:1], Server().states, replace=True)
        assert sorted(each.name for each in path.parent.iterdir()) == [path.name, f"{path.name}.jsonl"]
    else:
        assert not shards


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_memory_does_not_grow_with_the_number_of_texts(path: Path) -> None:
    server = Server()
    written = workbench.write_states(path, (f"text {number}" for number in range(400)), server.states)
    assert written.texts == 400
    assert server.most < 8
    gc.collect()
    assert server.alive == 0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "error", [bertscope.Unavailable("gone"), KeyboardInterrupt(), OSError(28, "No space left on device")], ids=repr
)
def test_a_run_that_ends_before_its_time_leaves_nothing(path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        workbench.write_states(path, TEXTS, Server(4, error).states)
    assert not [*path.parent.iterdir()]
    workbench.write_states(path, TEXTS, Server().states)
    before = {each: each.read_bytes() for each in path.parent.iterdir()}
    with pytest.raises(type(error)):
        workbench.write_states(path, TEXTS, Server(4, error).states, replace=True)
    assert {each: each.read_bytes() for each in path.parent.iterdir()} == before


def test_rejected_texts_are_left_out_or_named(path: Path) -> None:
    left_out: list[int] = []
    server = Server(reject="f")
    with pytest.raises(bertscope.InvalidArgument, match=r"^item 3 is too long$"):
        workbench.write_states(path, TEXTS, server.states)
    written = workbench.write_states(path, TEXTS, server.states, on_rejected=lambda item, _: left_out.append(item.number))
    assert (written.texts, written.rejected, left_out) == (4, 1, [3])
    wanted = expected(TEXTS)
    assert read(path) == {place: row for place, row in wanted.items() if place[0] != 3}
    with pytest.raises(bertscope.InvalidArgument, match="every text was rejected"):
        workbench.write_states(path, ["f"], server.states, on_rejected=lambda *_: None, replace=True)
    assert len(read(path)) == len(wanted) - 1


def test_what_could_not_be_written_is_said_before_anything_is_asked(path: Path) -> None:
    def ask(*_: Any) -> Any:
        raise AssertionError("asked")

    with pytest.raises(bertscope.InvalidArgument, match=r"must end with \.parquet, \.npy, \.safetensors"):
        workbench.write_states(path.with_suffix(".csv"), TEXTS, ask)
    with pytest.raises(OSError, match="No such file"):
        workbench.write_states(path.parent / "none" / path.name, TEXTS, ask)
    with PartFiles(path, replace=False), pytest.raises(bertscope.FailedPrecondition, match="another process writes"):
        workbench.write_states(path, TEXTS, ask)
    assert not part_of(path).exists()
    path.mkdir()
    with pytest.raises(bertscope.InvalidArgument, match="no regular file"):
        workbench.write_states(path, TEXTS, ask)
