"""Writes the files of commands, and rejects them before any work if they could not be written after it."""

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, TypeVar

import typer

from bertscope_workbench.command.views.output import Failure, console

T = TypeVar("T")


def require_plot(path: Path | None, pages: tuple[str, ...] = ()) -> None:
    """Rejects, before any call, figures that could not be drawn after it. `pages` are formats that need no matplotlib."""
    if path is None:
        return
    from bertscope_workbench.plots.figures import FIGURE_FORMATS, require_format

    _require_writable("--plot", path, lambda: require_format(path, (*FIGURE_FORMATS, *pages)))
    if path.suffix.lower() not in pages:
        require_matplotlib()


def require_matplotlib() -> None:
    """Rejects figures, and pages with a figure, where they could not be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise Failure("figures need matplotlib: pip install matplotlib")


def require_output(path: Path | None, formats: tuple[str, ...], option: str = "--output") -> None:
    """Rejects, before any measurement, files that could not be written after it."""
    if path is not None:
        from bertscope_workbench.plots.figures import require_format

        _require_writable(option, path, lambda: require_format(path, formats))


def draw(save: Callable[[Path], None], path: Path) -> None:
    """Writes a figure, and shows progress: many maps take seconds. A failure to write it becomes a line, and so do characters
    that no font has."""
    from bertscope_workbench.command.views.progress import waiting
    from bertscope_workbench.plots.figures import BOXES

    try:
        with waiting(f"drawing {path}"), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            save(path)
    except (ImportError, OSError, ValueError) as error:
        raise Failure(str(error)) from error
    if any(str(warning.message) == BOXES for warning in heard):
        console(stderr=True).print(BOXES, style="yellow", soft_wrap=True)


def read_file(path: Path, read: Callable[[Path], T]) -> T:
    """Returns what `read` reads from a file; a failure to read becomes a line."""
    try:
        return read(path)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error


def kept(save: Callable[[Path], None], path: Path) -> Path:
    """Writes a file. Returns its path; a failure to write becomes a line."""
    try:
        save(path)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from error
    return path


@contextmanager
def written(path: Path) -> Iterator[TextIO]:
    """Opens a file to write text into; a failure to write becomes a line."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from error


def _require_writable(option: str, path: Path, check: Callable[[], None]) -> None:
    try:
        check()
    except ValueError as error:
        raise typer.BadParameter(f"{option} {error}") from None
    folder = path.absolute().parent
    if not folder.is_dir():
        raise typer.BadParameter(f"{option} {path}: there is no folder {folder}")
    if os.path.isdir(path):  # Path.is_dir raises OSError for a name that is too long.
        raise typer.BadParameter(f"{option} {path}: it is a folder")
    if not _is_writable(path):
        raise typer.BadParameter(f"{option} {path}: it can't be written")


def _is_writable(path: Path) -> bool:
    """Says whether a file can be written. It opens the file, and removes one that it made: rights don't say all of a folder
    that takes no files, or of a name that is too long."""
    try:
        if path.exists() and not path.is_file():  # To open a pipe would wait for its reader.
            return os.access(path, os.W_OK)
        made = not path.exists()
        path.open("ab").close()
        if made:
            path.unlink()
    except OSError:
        return False
    return True


def partial_name(path: Path) -> Path:
    """Returns "effects.partial.csv" for "effects.csv"."""
    if path.suffixes[-2:-1] == [".partial"]:
        return path
    return path.with_name(f"{path.stem}.partial{path.suffix}")
