"""Text that the page sends of a file, as a file that a reader can open, and what the reader's errors say of it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertscope import InvalidArgument
from bertscope.errors import invalid_argument


@contextmanager
def written(contents: str, suffix: str, name: str = "") -> Iterator[Path]:
    """Gives a file with these contents while the block runs. An InvalidArgument of the block names the file by `name`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"file{suffix}")
        path.write_text(contents, encoding="utf-8", errors="replace")
        try:
            yield path
        except InvalidArgument as error:
            raise invalid_argument("contents", said(error, path, name)) from error


def said(error: InvalidArgument, path: Path, name: str = "") -> str:
    """Returns what an error says, with this name in the place of the file that the page made."""
    rest = str(error).removeprefix(str(path))
    return f"{name}{rest}" if name else rest.lstrip(",: ")
