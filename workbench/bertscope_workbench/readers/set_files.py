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

CROSSED = ", "
"""The text between the values of crossed columns in a group's name."""
QUOTE = '"'
USUAL_GROUPS = ("field", "UID")
"""The columns of BLiMP's groups: 12 fields, and 67 paradigms."""


class SetItems(Items[TextSet]):
    """Sets of a file, and beside each the `values` of its columns of groups, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[dict[str, str]] = []


def read_sets(
    path: File, groups: str | Iterable[str] | None = None, *, columns: Columns = None, limit: SupportsIndex | None = None
) -> SetItems:
    """Reads minimal pairs with their groups, for `compare_texts`: columns "good" and "bad", or BLiMP's own.

    `path` is a file, or a folder of which every table is read. `groups` names the columns of groups; None
    means "field" and "UID", where a file has them. Columns with commas between are crossed: "number,condition" makes a group of
    each two values that occur, such as "plural, prefix". `limit` holds for each file. Raises OSError for a file that can't be
    read, and InvalidArgument, naming the file and the line, for one with other contents.
    """
    crossed = [*map(_columns, USUAL_GROUPS if groups is None else validation.texts("groups", groups))]
    names = tuple(dict.fromkeys(name for each in crossed for name in each))
    required = () if groups is None else names
    kind = ItemKind((*PAIRS.required, *required), names, lambda row: _set(row, crossed))
    found = SetItems()
    for file in _files(Path(path)):
        items = read_items(file, kind, columns, limit)
        found += [one for one, _ in items]
        found.values += [values for _, values in items]
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


def _columns(group: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in group.split(","))


def _set(row: Row, crossed: Iterable[Sequence[str]]) -> tuple[TextSet, dict[str, str]]:
    cells = [{name: str(row.get(name, "")).strip() for name in names} for names in crossed]
    groups = dict.fromkeys(_crossed([*cell.values()]) for cell in cells if all(cell.values()))
    values = {name: value for cell in cells for name, value in cell.items() if value}
    return TextSet(PAIRS.item(row), 0, list(groups)), values


def _crossed(values: Sequence[str]) -> str:
    """Returns the name of a group of these values. Where several are crossed, those with a comma are quoted: "a, b" of one
    column and "c" of the next are another group than "a" and "b, c"."""
    if len(values) > 1:
        values = [
            f'"{each.replace(QUOTE, 2 * QUOTE)}"' if CROSSED in each or each.startswith(QUOTE) else each for each in values
        ]
    return CROSSED.join(values)
