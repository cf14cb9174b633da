"""Reads sets of texts from files: minimal pairs with their groups, as BLiMP publishes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import SupportsIndex

from bertscope import TextSet
from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.validation import File

from bertscope_workbench.readers.files import PAIRS, Columns, ItemKind, read_items
from bertscope_workbench.readers.item_lists import Items
from bertscope_workbench.readers.table_rows import READERS, Row

__all__ = ["read_sets"]

USUAL_GROUPS = ("field", "UID")
"""The columns of BLiMP's groups: 12 fields, and 67 paradigms."""


def read_sets(
    path: File, groups: str | Iterable[str] | None = None, *, columns: Columns = None, limit: SupportsIndex | None = None
) -> Items[TextSet]:
    """Reads minimal pairs with their groups, for `compare_texts`: columns "good" and "bad", or BLiMP's own.

    `path` is a file, or a folder of which every table is read. `groups` names the columns of groups; None
    means "field" and "UID", where a file has them. `limit` holds for each file. Raises OSError for a file that can't be read,
    and InvalidArgument, naming the file and the line, for one with other contents.
    """
    names = USUAL_GROUPS if groups is None else tuple(validation.texts("groups", groups))
    required = () if groups is None else names
    kind = ItemKind((*PAIRS.required, *required), names, lambda row: _set(row, names))
    found = Items[TextSet]()
    for file in _files(Path(path)):
        items = read_items(file, kind, columns, limit)
        found += items
        found.lines += items.lines
        found.paths += [file] * len(items)
    return found


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    suffixes = {suffix for suffix in READERS if suffix != ".txt"}
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in suffixes and file.is_file())
    if not files:
        raise invalid_argument(str(path), f"has no file to read; its files' names must end with {', '.join(sorted(suffixes))}")
    return files


def _set(row: Row, names: Iterable[str]) -> TextSet:
    groups = dict.fromkeys(str(row[name]).strip() for name in names if name in row)
    return TextSet(PAIRS.item(row), 0, [group for group in groups if group])
