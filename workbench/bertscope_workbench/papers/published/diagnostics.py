"""Reads the diagnostics of Ettinger 2020 as lm-diagnostics publishes them: CPRAG-102, ROLE-88, NEG-136.

As a "choice", the completion that fits must be likelier (the paper's sensitivity tests); as a "blank", the expected word must
be among the likeliest (its prediction accuracy).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bertscope_workbench.papers.published.agreement import lines
from bertscope_workbench.papers.published.item_kinds import Blank, Choice, Item, Read
from bertscope_workbench.papers.published.reproduction import Reproduction
from bertscope_workbench.papers.published.tables import MASK, SEPARATOR
from bertscope_workbench.readers.table_rows import bad_line

CONSTRAINTS = {"H": "high constraint", "L": "low constraint"}
LICENSING = {"Y": "licensed", "N": "unlicensed"}


def read_cprag(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads CPRAG-102: the expected completion, one of its category, one of another category. Groups are the constraint."""
    for number, row in _rows(
        path, ("context_s1", "context_s2", "expected", "within_category", "between_category", "constraint")
    ):
        text = f"{row['context_s1']} {row['context_s2']} {MASK}"
        if row["constraint"] not in CONSTRAINTS:
            raise bad_line(path, number, f"constraint is {row['constraint']!r}; write H or L")
        groups = (CONSTRAINTS[row["constraint"]],)
        words = row["expected"], row["within_category"], row["between_category"]
        yield _item(reproduction, [(text, word) for word in words], groups)


def read_role(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads ROLE-88: the target fits in the context "a" of an item, and not in "b", where the roles are reversed."""
    contexts: dict[str, dict[str, tuple[str, str]]] = {}
    for number, row in _rows(path, ("item", "context", "expected", "target")):
        item, _, condition = row["item"].partition("-")
        text = f"{row['context'].strip()} {MASK}"
        if condition not in ("a", "b"):
            raise bad_line(path, number, f"item is {row['item']!r}; write a number with -a or -b")
        contexts.setdefault(item, {})[condition] = (text, row["target"].split()[0])
        if reproduction.ask == "blank":
            yield Blank(text, tuple(dict.fromkeys(word.split()[0] for word in row["expected"].split(SEPARATOR))))
    if reproduction.ask == "choice":
        for item, pair in contexts.items():
            if len(pair) < 2:
                found.skipped.add("the item has only one of its two contexts", item)
            else:
                yield Choice((pair["a"], pair["b"]))


def read_negation_simple(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads NEG-136-SIMP: "A trout is (a|an)", with the article that the completion needs. Groups: affirmative, negative."""
    for _, row in _rows(path, ("context_aff", "context_neg", "target_aff", "target_neg")):

        def option(context: str, word: str) -> tuple[str, str]:
            stem = re.sub(r" \(.+\)", "", context)
            return f"{stem} {'an' if word[:1] in 'aeiou' else 'a'} {MASK}", word

        for context, right, wrong, group in _both(row):
            yield _item(reproduction, [option(context, right), option(context, wrong)], (group,))


def read_negation_natural(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads NEG-136-NAT. Groups: affirmative or negative, licensed or unlicensed, and both."""
    for number, row in _rows(path, ("context_aff", "context_neg", "target_aff", "target_neg", "licensing")):
        if row["licensing"] not in LICENSING:
            raise bad_line(path, number, f"licensing is {row['licensing']!r}; write Y or N")
        licensing = LICENSING[row["licensing"]]
        for context, right, wrong, group in _both(row):
            text = f"{context} {MASK}"
            yield _item(reproduction, [(text, right), (text, wrong)], (group, f"{licensing} {group}"))


def _item(reproduction: Reproduction, options: Sequence[tuple[str, str]], groups: tuple[str, ...]) -> Item:
    """Returns a choice of options, the right one first, or the blank of the right one, whichever is asked."""
    (text, right), *_ = options
    return Choice(tuple(options), groups) if reproduction.ask == "choice" else Blank(text, (right,), groups)


def _both(row: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Yields context, right word, wrong word and group, for the affirmative and the negative context."""
    yield row["context_aff"], row["target_aff"], row["target_neg"], "affirmative"
    yield row["context_neg"], row["target_neg"], row["target_aff"], "negative"


def _rows(path: Path, names: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    table = lines(path)
    first, head = next(table, (1, []))
    for name in names:
        if name not in head:
            raise bad_line(path, first, f"has no column {name!r}; it must name its columns as lm-diagnostics does")
    for number, cells in table:
        if len(cells) != len(head):
            raise bad_line(path, number, f"has {len(cells)} columns where the first line names {len(head)}")
        row = dict(zip(head, cells, strict=True))
        for name in names:
            if not row[name]:
                raise bad_line(path, number, f"{name} is empty; fill it in or take the line out")
        yield number, row
