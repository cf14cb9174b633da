"""The budget of the tree: budget.toml has the most that each figure may be.

A change that needs more raises the figure in the same commit, with a comment on its line that says why. Figures are multiples
of a step, so that small changes pass; one that has room for a whole step more is too high, and `--lower` lowers it: what a diet
took off is not put on again unseen.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tools.structure.measures import Structure

FILE = Path(__file__).with_name("budget.toml")
LONG = 300
"""Files with more lines than this are listed."""

STEPS = {"folders": 250, "rooms": 50, "long files": 25}
"""The multiples of figures, by table; those of other tables are exact."""

HEAD = """\
# The most hand-written lines of Python that each folder and each room (a folder's own files) may have, and other figures of
# `python -m tools.structure`. A change that needs more raises the figure here, and says why in a comment on its line;
# `python -m tools.structure --lower` lowers what is too high.
"""

Figures = Mapping[str, Mapping[str, int]]
"""By table and name."""


def figures(found: Mapping[str, Structure], lines: Mapping[str, int]) -> Figures:
    """Returns the figures of the tree as it is."""
    folders, rooms = Counter[str](), Counter[str]()
    for path, count in lines.items():
        folders[path.partition("/")[0]] += count
        rooms[path.rpartition("/")[0]] += count
    tree: Figures = {
        "folders": folders,
        "rooms": rooms,
        "long files": {path: count for path, count in lines.items() if count > LONG},
        "modules at the root": {name: one.root_modules for name, one in found.items()},
        "arrows between rooms": {name: one.arrows for name, one in found.items()},
        "circles": {name: len(one.module_circles) + len(one.package_circles) for name, one in found.items()},
    }
    return {table: {name: count for name, count in counts.items() if count} for table, counts in tree.items()}


def over(tree: Figures, file: Path = FILE) -> list[str]:
    """Returns a line for each figure that the tree exceeds, and for each that is higher than it needs to be."""
    allowed, wrong = tomllib.loads(file.read_text(encoding="utf-8")), list[str]()
    for table, counts in tree.items():
        for name in sorted(counts.keys() | allowed.get(table, {}).keys()):
            count, most = counts.get(name, 0), allowed.get(table, {}).get(name, 0)
            if count > most:
                wrong.append(
                    f"{table}: {name} is {count} and its budget {most}; make it smaller, or raise the figure in "
                    f"{file.name} and say why on its line"
                )
            elif most > rounded(table, count) + STEPS.get(table, 0) or not count:
                wrong.append(f"{table}: {name} is {count} and its budget {most}; run `python -m tools.structure --lower`")
    return wrong


def rounded(table: str, count: int) -> int:
    """Returns the figure of a table that allows a count."""
    step = STEPS.get(table, 1)
    return -(-count // step) * step


def lower(tree: Figures, file: Path = FILE) -> None:
    """Lowers the figures of a file to those of the tree, and drops those of what is gone. Comments stay."""
    table, kept = "", list[str]()
    for line in file.read_text(encoding="utf-8").splitlines():
        if header := re.fullmatch(r'\["?(.*?)"?\]', line):
            table = header[1]
        elif entry := re.fullmatch(r'"(.*?)" = (\d+)(.*)', line):
            count = tree.get(table, {}).get(entry[1], 0)
            if not count:
                continue
            line = f'"{entry[1]}" = {min(int(entry[2]), rounded(table, count))}{entry[3]}'
        kept.append(line)
    file.write_text("\n".join(kept) + "\n", encoding="utf-8")


def written(tree: Figures) -> str:
    """Returns the text of a budget that the tree just keeps."""
    parts = [HEAD]
    for table, counts in tree.items():
        entries = [f'"{name}" = {rounded(table, count)}' for name, count in sorted(counts.items())]
        parts.append("\n".join([f'["{table}"]', *entries, ""]))
    return "\n".join(parts)
