"""Writes hidden states to files of any size: .parquet, .npy and .safetensors. Memory is that of some texts.

Values are float32 or float16; none of the three libraries gives numpy a bfloat16, which the client has widened to float32.
"""

import glob
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.lib.format as npy
from bertscope import HiddenStates, Token
from bertscope.errors import invalid_argument

from bertscope_workbench.readers.items.formats import JsonLines
from bertscope_workbench.readers.items.part_files import PartFiles

GROUP_BYTES = 32 * 2**20
"""States that are in memory at a time: a row group of a Parquet file."""
SHARD_BYTES = 256 * 2**20
"""States in a file of safetensors, which is written from memory as a whole; a text that is larger has one by itself."""
INDEX = ".index.json"
ROWS = ".jsonl"
ABOUT = ".json"
LINES = JsonLines()

About = Mapping[str, str]
"""Values that all rows of a file share: the model, the options."""


class StatesWriter(ABC):
    """A format."""

    def __init__(self, files: PartFiles, key: str, about: About) -> None:
        """`key` is the name of a text's number, "line" or "item"; `about` is what all rows share."""
        self._files, self._key, self._about = files, key, about

    @abstractmethod
    def add(self, number: int, found: HiddenStates) -> None:
        """Writes the states of a text by its number. Raises OSError."""

    @abstractmethod
    def end(self) -> tuple[Path, ...]:
        """Makes all files whole, and returns their paths, the main one last. Raises OSError."""

    def close(self) -> None:  # noqa: B027  # most have nothing beside their files, which are closed by PartFiles
        """Ends a run that may be given up."""


class ParquetStates(StatesWriter):
    """A row for each unit and layer, with a column of vectors."""

    def __init__(self, files: PartFiles, key: str, about: About) -> None:
        """Begins the files; arguments are those of every format."""
        super().__init__(files, key, about)
        self._file = files.open(files.path)
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._bytes = 0

    def add(self, number: int, found: HiddenStates) -> None:
        """Adds a row for each unit, layer by layer."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        layers, rows, size = found.states.shape
        units = list(_units(found)) * layers
        columns: dict[str, Any] = {
            self._key: pa.array(np.full(layers * rows, number), pa.int64()),
            "row": pa.array(np.tile(np.arange(rows), layers), pa.int32()),
            "token": pa.array([_text(unit) for unit in units], pa.string()),
            **{
                name: pa.array([None if unit is None else getattr(unit, name) for unit in units], pa.int32())
                for name in ("segment", "start", "end")
            },
            "layer": pa.array(np.repeat(found.layers, rows), pa.int32()),
            "state": pa.FixedSizeListArray.from_arrays(pa.array(found.states.reshape(-1)), size),
        }
        batch = pa.record_batch(columns, metadata=dict(self._about))
        if self._writer is None:
            other = [name for name in columns if name != "state"]
            compression = dict.fromkeys(other, "snappy") | {"state.list.element": "none"}  # Nothing in them repeats.
            self._writer = pq.ParquetWriter(
                self._file, batch.schema, use_dictionary=other, compression=compression, write_statistics=other
            )
        self._waiting.append(batch)
        self._bytes += found.states.nbytes
        if self._bytes >= GROUP_BYTES:
            self._write()

    def end(self) -> tuple[Path, ...]:
        """Writes the last group and the end of the file."""
        self._write()
        self._writer.close()
        return self._files.commit()

    def close(self) -> None:
        """Ends what pyarrow writes: it tries to end a file that is given up."""
        with suppress(OSError):
            if self._writer is not None:
                self._writer.close()

    def _write(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=2**31)
        self._waiting, self._bytes = [], 0


class NpyStates(StatesWriter):
    """One array [rows, layers, hidden_size]; FILE.jsonl says which row is what, FILE.json what all share."""

    def __init__(self, files: PartFiles, key: str, about: About) -> None:
        """Begins the files; arguments are those of every format."""
        super().__init__(files, key, about)
        self._file = files.open(files.path)
        self._lines = files.open(beside(files.path, ROWS))
        self._shape, self._rows = (0, 0), 0
        self._dtype: Any = None

    def add(self, number: int, found: HiddenStates) -> None:
        """Adds a row for each unit."""
        if not self._rows:
            layers, _, size = found.states.shape
            self._shape, self._dtype = (layers, size), npy.dtype_to_descr(found.states.dtype)
            self._write_header()
        self._file.write(np.ascontiguousarray(found.states.transpose(1, 0, 2)).data)
        for row, unit in enumerate(_units(found)):
            self._lines.write(LINES.line({"index": self._rows + row, self._key: number, "row": row, **_columns(unit)}))
        self._rows += found.states.shape[1]

    def end(self) -> tuple[Path, ...]:
        """Writes the number of rows into the header, and what all rows share."""
        self._file.seek(0)
        self._write_header()
        about = self._files.open(beside(self._files.path, ABOUT))
        about.write(json.dumps(dict(self._about), indent=2).encode() + b"\n")
        return self._files.commit()

    def _write_header(self) -> None:
        """Writes the header, which has the same size for any number of rows: numpy leaves room for one that grows."""
        header = {"descr": self._dtype, "fortran_order": False, "shape": (self._rows, *self._shape)}
        npy.write_array_header_1_0(self._file, header)


class SafetensorsStates(StatesWriter):
    """A tensor [layers, rows, hidden_size] for each text, "line.17"; FILE.jsonl says which row is what.

    More than SHARD_BYTES go into shards, which are called as Hugging Face's: NAME-00001-of-00002.safetensors, with
    NAME.safetensors.index.json, which says where each tensor is.
    """

    def __init__(self, files: PartFiles, key: str, about: About) -> None:
        """Begins the files; arguments are those of every format."""
        super().__init__(files, key, about)
        self._lines = files.open(beside(files.path, ROWS))
        self._mode = os.fstat(self._lines.fileno()).st_mode  # The library lets only the owner read its files.
        self._tensors: dict[str, Any] = {}
        self._bytes = self._total = 0
        self._shards: list[Path] = []

    def add(self, number: int, found: HiddenStates) -> None:
        """Adds a tensor."""
        if self._tensors and self._bytes + found.states.nbytes > SHARD_BYTES:
            self._write()
        name = f"{self._key}.{number}"
        self._tensors[name] = np.ascontiguousarray(found.states)
        self._bytes += found.states.nbytes
        self._total += found.states.nbytes
        for row, unit in enumerate(_units(found)):
            self._lines.write(LINES.line({"tensor": name, self._key: number, "row": row, **_columns(unit)}))

    def end(self) -> tuple[Path, ...]:
        """Writes the last shard and, if there are several, the index."""
        self._write()
        path, count = self._files.path, len(self._shards)
        if count == 1:
            return self._files.commit([(self._shards[0], path)])
        names = {shard: path.with_name(f"{shard.stem}-of-{count:05d}{shard.suffix}") for shard in self._shards}
        self._write_index(self._files.open(beside(path, INDEX)), names)
        return self._files.commit(names.items())

    def _write(self) -> None:
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        path = self._files.path
        shard = path.with_name(f"{path.stem}-{len(self._shards) + 1:05d}{path.suffix}")
        try:
            part = self._files.part(shard)
            save_file(self._tensors, part, {"format": "np", **self._about})
            part.chmod(self._mode)
        except SafetensorError as error:
            raise OSError(str(error)) from error
        self._shards.append(shard)
        self._tensors, self._bytes = {}, 0

    def _write_index(self, file: BinaryIO, names: Mapping[Path, Path]) -> None:
        """Writes the index. The names of all tensors are never in memory together."""
        from safetensors import safe_open

        metadata = json.dumps({"total_size": self._total, **self._about})
        file.write(f'{{"metadata": {metadata}, "weight_map": {{'.encode())
        comma = ""
        for shard, name in names.items():
            with safe_open(self._files.part(shard), framework="np") as tensors:
                for tensor in tensors.keys():  # noqa: SIM118  # no dict
                    file.write(f'{comma}\n"{tensor}": {json.dumps(name.name)}'.encode())
                    comma = ","
        file.write(b"\n}}\n")


FORMATS: Mapping[str, type[StatesWriter]] = {
    ".parquet": ParquetStates,
    ".npy": NpyStates,
    ".safetensors": SafetensorsStates,
}
STATE_FORMATS = tuple(FORMATS)


def format_of(path: Path) -> type[StatesWriter]:
    """Returns the format of a file. Raises InvalidArgument for a name with another suffix."""
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        raise invalid_argument("output", f"{path}: the name must end with {', '.join(FORMATS)}")
    return found


def beside(path: Path, suffix: str) -> Path:
    """Returns the name of a file beside the main one: "states.npy.jsonl"."""
    return path.with_name(path.name + suffix)


def others(path: Path) -> Iterator[Path]:
    """Yields the names of the files beside the main one that are there from an earlier run."""
    candidates = [beside(path, suffix) for suffix in (ROWS, ABOUT, INDEX)] if path.suffix.lower() != ".parquet" else []
    digits = "[0-9]" * 5
    yield from (each for each in candidates if each.exists())
    if path.suffix.lower() == ".safetensors":
        yield from sorted(path.parent.glob(f"{glob.escape(path.stem)}-{digits}-of-{digits}{path.suffix}"))


def _units(found: HiddenStates) -> Iterator[Token | None]:
    """Yields the unit of each row; None for a whole text."""
    yield from found.tokens or (None,)


def _text(unit: Token | None) -> str | None:
    return None if unit is None else unit.text


def _columns(unit: Token | None) -> dict[str, Any]:
    if unit is None:
        return {}
    return {"token": unit.text, "segment": unit.segment, "start": unit.start, "end": unit.end}
