"""Reads facts, templates and vocabularies from files, as LAMA and ParaRel publish them.

Facts are JSON Lines with "sub_label" and "obj_label" (LAMA's T-REx, ParaRel), whose relation is "predicate_id" or "pred" or the
file's name (P36.jsonl), or tables (.tsv, .csv) with the columns subject, object and, if there are several relations, relation.
Several right objects have "|" between them in tables. Templates are JSON Lines with "relation" and "template" (LAMA's), or
"pattern" (ParaRel's, whose file has the name of its relation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

from bertscope import Fact, FactRelation, FactTemplate
from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.validation import File

from bertscope_workbench.readers.files import ANSWER_SEPARATOR, Columns, ItemKind, read_items
from bertscope_workbench.readers.item_lists import Items, collected, made, no_line
from bertscope_workbench.readers.table_rows import Broken, json_lines, raised, text_lines

__all__ = ["read_facts", "read_templates", "read_words"]

T = TypeVar("T")

JSON_SUFFIXES = (".jsonl", ".ndjson")
SUBJECTS, OBJECTS, RELATIONS = (
    ("subject", "sub_label"),
    ("objects", "object", "obj_label"),
    ("relation", "predicate_id", "pred"),
)
TEXTS = ("template", "pattern")


def read_facts(
    path: File,
    *,
    relation: str | None = None,
    columns: Columns = None,
    limit: SupportsIndex | None = None,
    on_broken: Broken | None = None,
) -> Items[Fact]:
    """Reads facts for `query_facts`, as LAMA and ParaRel publish them, or from a table with the columns subject and object.

    `relation` names the relation of all facts; unless given, it is that of each line, or the file's name without its suffix.
    `columns` maps names to the columns of a table: {"subject": "country", "object": "capital"}. `limit` reads that many.
    `on_broken` takes the error of each line that cannot be read, which is then left out.

    Raises OSError for a file that cannot be read, and InvalidArgument, naming the file and the line, for one with
    other contents.
    """
    path, broken = Path(path), on_broken or raised
    if path.suffix.lower() not in JSON_SUFFIXES:
        kind = ItemKind(("subject", "object"), ("relation", "primes"), lambda row: _fact(row, relation, path.stem))
        return read_items(path, kind, columns, limit, broken)
    if columns:
        raise invalid_argument("columns", "goes with tables (.tsv, .csv); JSON Lines have the keys of LAMA and ParaRel")
    return _json_items(path, limit, lambda row: _fact(row, relation, path.stem), ("sub_label", "obj_label"), broken)


def read_templates(path: File) -> dict[str, FactRelation]:
    """Reads the templates of relations by name, from LAMA's relations file or one of ParaRel's patterns files.

    A line has "template", or "pattern", with [X] and [Y]; "relation" is its relation, else the file's name without its suffix;
    "negated": true marks a negated one. Errors are as in `read_facts`.
    """
    path = Path(path)
    found: dict[str, list[FactTemplate]] = {}

    def item(row: Mapping[str, Any]) -> tuple[str, FactTemplate]:
        text = next((row[key] for key in TEXTS if key in row), None)
        if text is None:
            raise invalid_argument("template", "is missing")
        return _name(row, None, path.stem), FactTemplate(text, row.get("negated", False))

    if path.suffix.lower() in JSON_SUFFIXES:
        items = _json_items(path, None, item, ("relation", "template"))
    else:
        items = read_items(path, ItemKind(("template",), ("relation",), item))
    for name, template in items:
        if template not in found.setdefault(name, []):
            found[name].append(template)
    return {name: FactRelation(name, templates) for name, templates in found.items()}


def read_words(path: File) -> list[str]:
    """Reads words, one a line, such as LAMA's common vocabulary or candidates; each once. Raises OSError for a file that cannot
    be read, and InvalidArgument for one without a word."""
    path = Path(path)
    words = list(dict.fromkeys(line.strip() for _, line in text_lines(path)))
    if not words:
        raise invalid_argument(str(path), "has no word; write one word per line")
    return words


def _json_items(
    path: Path,
    limit: SupportsIndex | None,
    item: Callable[[Mapping[str, Any]], T],
    required: tuple[str, ...],
    broken: Broken = raised,
) -> Items[T]:
    return collected(Items[T](), made(path, json_lines(path, broken, required), item, broken), limit, path, no_line(required))


def _fact(row: Mapping[str, Any], relation: str | None, stem: str) -> Fact:
    subject = next((row[key] for key in SUBJECTS if key in row), None)
    objects = next((row[key] for key in OBJECTS if key in row), None)
    if subject is None or objects is None:
        raise invalid_argument("subject" if subject is None else "object", "is missing")
    if isinstance(objects, str):
        objects = [part.strip() for part in objects.split(ANSWER_SEPARATOR)]
    primes = row.get("primes", ())
    if isinstance(primes, str):
        primes = [part.strip() for part in primes.split(ANSWER_SEPARATOR)]
    return Fact(subject, objects, _name(row, relation, stem), primes)


def _name(row: Mapping[str, Any], relation: str | None, stem: str) -> str:
    name = relation if relation is not None else next((row[key] for key in RELATIONS if key in row), stem)
    return str(validation.text("relation", name))
