"""Finds tools by what they are for: an agent sees a dozen of them, and asks for the rest."""

import re
from collections.abc import Iterable

from bertscope_workbench.agents.contract import TOLD, Operation, schemas
from bertscope_workbench.agents.tools import shortened

FOUND = 8
"""The most tools that a search gives."""

LINE_CHARACTERS = 160

SYNONYMS: dict[str, str] = TOLD["synonyms"]


def search(query: str, operations: Iterable[Operation]) -> list[dict[str, str]]:
    """Returns the tools whose names, descriptions and fields have the words of a query, the best first."""
    words = set(re.findall(r"[a-z0-9]{3,}", query.lower()))
    words |= {SYNONYMS[word] for word in words if word in SYNONYMS}
    scored = [(_score(words, operation), operation) for operation in operations]
    best = sorted((entry for entry in scored if entry[0]), key=lambda entry: -entry[0])[:FOUND]
    return [line(operation) for _, operation in best]


def line(operation: Operation) -> dict[str, str]:
    """Returns a tool with its first sentences, and its role if that is admin."""
    said = shortened(operation.description.partition("Errors: ")[0], LINE_CHARACTERS)
    return {"name": operation.name, "about": said} | ({"role": "admin"} if operation.role == "admin" else {})


def _score(words: set[str], operation: Operation) -> int:
    name, about = operation.name, operation.description.lower()
    fields = " ".join(schemas()[operation.schema].get("properties", {})).lower()
    return sum(4 * _has(name, word) + 2 * _has(about, word) + _has(fields, word) for word in words)


def _has(text: str, word: str) -> bool:
    return word.rstrip("s") in text
