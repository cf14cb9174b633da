"""Writes the tables of docs/errors.md from reasons.txt, which lists every reason with its meaning and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.protos.sections import filled

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "protos" / "reasons.txt"
PAGE = Path("docs/errors.md")
HEADINGS = {"INVALID_ARGUMENT": "`BadRequest` names the field that breaks the rule.", "CLIENT": "No server said it."}
CLIENT = "CLIENT"
"""Replaces a status for errors without a call."""


class Reason(NamedTuple):
    """One line of reasons.txt."""

    status: str
    name: str
    meaning: str
    remedy: str


def reasons() -> Iterator[Reason]:
    """Yields the reasons in the order of the file. Raises ValueError, naming the line, for one that is not four parts."""
    for number, line in enumerate(SOURCE.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            parts = [part.strip() for part in line.split(" | ")]
            if len(parts) != 4 or not all(parts) or not re.fullmatch(r"[A-Z][A-Z0-9_]+", parts[1]):
                raise ValueError(f"{SOURCE.name}, line {number}: write STATUS | REASON | when | what to do")
            yield Reason(*parts)


def errors_page() -> str:
    """Returns docs/errors.md with fresh tables: one for each status, sorted by reason, INVALID_ARGUMENT at the end."""
    return filled((ROOT / PAGE).read_text(encoding="utf-8"), "reasons", "\n".join(_tables()).splitlines())


def _tables() -> Iterator[str]:
    by_status: dict[str, list[Reason]] = {}
    for reason in reasons():
        by_status.setdefault(reason.status, []).append(reason)
    for status in sorted(by_status, key=lambda status: status == "INVALID_ARGUMENT"):
        rows = [f"| `{one.name}` | {one.meaning} | {one.remedy} |\n" for one in sorted(by_status[status])]
        title = "Python client" if status == CLIENT else status
        remark = f"{HEADINGS[status]}\n\n" if status in HEADINGS else ""
        yield f"### {title}\n{remark}| reason | when | what to do |\n|---|---|---|\n{''.join(rows)}"
