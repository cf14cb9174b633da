"""Reads items from tables whose columns a definition names: TSV, CSV or JSON Lines."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertscope.errors import invalid_argument

from bertscope_workbench.papers.keys import Keys
from bertscope_workbench.papers.published.item_kinds import Blank, Choice, Item, Pair, Read
from bertscope_workbench.papers.published.reproduction import Reproduction
from bertscope_workbench.readers import files

COLUMNS = {"choice": ("text", "right", "wrong"), "blank": ("text", "answer"), "pair": ("good", "bad")}
"""By kind of item: the columns that it needs. With a template, "subject" replaces "text"."""
MASK, SUBJECT, OBJECT = "[MASK]", "[X]", "[Y]"
SEPARATOR = "|"


def options(keys: Keys) -> Mapping[str, Any]:
    """Returns the keys of a definition that this reader has: `columns`, `groups`, `template`, `lower`, `prefix`."""
    columns = keys.take("columns", dict, {})
    known = sorted({name for names in COLUMNS.values() for name in names} | {"subject"})
    for name, column in columns.items():
        if name not in known or not isinstance(column, str):
            raise keys.error("columns", f"{name!r} is not read; write names of columns for {', '.join(known)}")
    template = keys.take("template", str, "")
    if template and (template.count(SUBJECT), template.count(OBJECT)) != (1, 1):
        raise keys.error("template", f"needs {SUBJECT} for the subject and {OBJECT} for the object, each once")
    return {
        "columns": columns,
        "groups": keys.texts("groups", ()),
        "template": template,
        "lower": keys.take("lower", bool, False),
    }


def read(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads one file; several answers, or wrong words, have "|" between them. Raises InvalidArgument for a broken line."""
    template, groups = reproduction.options["template"], reproduction.options["groups"]
    needed = COLUMNS[reproduction.ask]
    if template:
        needed = ("subject", *needed[1:])
    names = {**reproduction.options["columns"]}
    for name in names:
        if name not in needed:
            raise invalid_argument("columns", f"{name!r} is not read of a {reproduction.ask}; {', '.join(needed)} are")
    table = files.read_items(path, files.ItemKind((*needed, *groups), (), dict), names)
    for line, row in zip(table.lines, table, strict=True):
        cells = {name: value if isinstance(value, list) else str(value).strip() for name, value in row.items()}
        item = _item(reproduction, cells, template, tuple(str(cells[name]) for name in groups))
        if isinstance(item, str):
            raise invalid_argument(f"{path}, line {line}", item)
        yield item


def _item(reproduction: Reproduction, row: Mapping[str, Any], template: str, groups: tuple[str, ...]) -> Item | str:
    """Returns the item of a row, or the error in it."""
    lower = reproduction.options["lower"]
    if reproduction.ask == "pair":
        return Pair(_cased(row["good"], lower), _cased(row["bad"], lower), groups)
    text = filled(template, row["subject"]) if template else row["text"]
    text = _cased(text, lower)
    if text.count(MASK) != 1:
        return f"the text has {text.count(MASK)} masks; write {MASK} once"
    if reproduction.ask == "blank":
        answers = _words(row["answer"], lower)
        return (
            Blank(text, answers, groups) if answers and all(answers) else "an answer is empty; fill it in or take the line out"
        )
    right, wrong = _cased(row["right"], lower), _words(row["wrong"], lower)
    if not wrong or not all(wrong):
        return "a wrong word is empty; fill it in or take the line out"
    return Choice(((text, right), *((text, word) for word in wrong)), groups)


def filled(template: str, subject: str) -> str:
    """Returns a template with its subject, and a mask in place of the object."""
    before, after = template.split(SUBJECT)
    return before.replace(OBJECT, MASK) + subject + after.replace(OBJECT, MASK)


def lowered(text: str) -> str:
    """Returns a text in lower case, but for its mask."""
    return MASK.join(piece.lower() for piece in text.split(MASK))


def _cased(text: str, lower: bool) -> str:
    return lowered(text) if lower else text


def _words(value: Any, lower: bool) -> tuple[str, ...]:
    words = value if isinstance(value, list) else value.split(SEPARATOR)
    return tuple(dict.fromkeys(_cased(str(word).strip(), lower) for word in words))
