"""Keeps full results in a folder: a document as JSON, and its arrays beside it, as numpy's .npz."""

import contextlib
import itertools
import json
import math
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from bertscope.errors import invalid_argument

KEPT = 200
"""The number of results of a process that are kept: the oldest go first."""


class Results:
    """The full results of a process. Files are their owner's alone."""

    def __init__(self, folder: Path, temporary: TemporaryDirectory[str] | None = None) -> None:
        """Takes a folder that is there, and what removes it if it is `temporary`."""
        self.folder, self._temporary = folder, temporary
        self._numbers = itertools.count(1)
        self._names: deque[str] = deque()

    @classmethod
    def of(cls, folder: Path | None) -> Self:
        """Makes the folder; without one, a temporary folder, which `close` removes. Raises OSError."""
        if folder is None:
            temporary = TemporaryDirectory(prefix="bertscope-mcp-", ignore_cleanup_errors=True)
            return cls(Path(temporary.name), temporary)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return cls(folder.resolve())

    def close(self) -> None:
        """Removes the folder if it is a temporary one."""
        if self._temporary is not None:
            self._temporary.cleanup()

    def write(self, tool: str, document: Any) -> str:
        """Writes a result, and removes the oldest one beyond those that are kept. Returns its path. Raises OSError."""
        number = next(name for name in self._numbers if not (self.folder / f"{tool}-{name}.json").exists())
        path = self.folder / f"{tool}-{number}.json"
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        plain = _without_arrays(document, arrays, path.with_suffix(".npz").name)
        _create(path, json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=1).encode() + b"\n")
        if arrays:
            _create(path.with_suffix(".npz"), b"")
            np.savez(path.with_suffix(".npz"), allow_pickle=False, **arrays)
        self._names.append(path.name)
        while len(self._names) > KEPT:
            oldest = self.folder / self._names.popleft()
            for each in (oldest, oldest.with_suffix(".npz")):
                with contextlib.suppress(OSError):
                    each.unlink()
        return str(path)

    def names(self) -> list[str]:
        """Returns the names of the results that are kept, the oldest first."""
        return [*self._names]

    def read(self, result: str, pointer: str) -> Any:
        """Returns the part of a result that a JSON Pointer names. Raises InvalidArgument for another one."""
        name = Path(result).name
        if name not in self._names:
            raise invalid_argument("result", "is no result of this process; use the full_result of an answer")
        found = json.loads((self.folder / name).read_text(encoding="utf-8"))
        if not f"{pointer}/".startswith("/"):
            raise invalid_argument("pointer", f"must begin with a slash, as /{pointer}; empty, it is all of the result")
        for part in pointer.split("/")[1:]:
            found = _step(self._loaded(found), part.replace("~1", "/").replace("~0", "~"), pointer)
        return self._loaded(found)

    def _loaded(self, value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {"array", "file", "shape"}:
            with np.load(self.folder / value["file"], allow_pickle=False) as arrays:
                return arrays[value["array"]]
        return value


def _step(value: Any, part: str, pointer: str) -> Any:
    with contextlib.suppress(KeyError, IndexError, ValueError, TypeError):
        found = value[part if isinstance(value, dict) else int(part)]
        return found.item() if isinstance(found, np.generic) else found
    raise invalid_argument("pointer", f"{part!r} of {pointer!r} is not there: what it is looked for in has {_parts(value)}")


def _parts(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(value)
    return f"{len(value)} entries" if _is_long(value) else "no parts"


def _is_long(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _create(path: Path, content: bytes) -> None:
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content)


def _without_arrays(value: Any, arrays: dict[str, np.ndarray[Any, Any]], file: str) -> Any:
    if isinstance(value, dict):
        return {name: _without_arrays(each, arrays, file) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_arrays(each, arrays, file) for each in value]
    if isinstance(value, np.ndarray):
        name = f"array_{len(arrays)}"
        arrays[name] = value
        return {"array": name, "file": file, "shape": list(value.shape)}
    return None if isinstance(value, float) and not math.isfinite(value) else value
