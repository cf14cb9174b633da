"""Prints what the tree weighs, and checks that it grows only on purpose.

python -m tools.structure            tables
python -m tools.structure --json     the same, for programs
python -m tools.structure --check    against tools/structure/budget.toml, and whether CONTRIBUTING.md has the tree; `make check`
python -m tools.structure --lower    lowers the figures of the budget to what the tree weighs, and writes CONTRIBUTING's tree
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from tools.structure import budget, tree
from tools.structure.measures import PACKAGES, ROOT, Structure, lines_by_file, lines_by_folder, measure


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.structure", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for flag in ("json", "check", "lower"):
        parser.add_argument(f"--{flag}", action="store_true")
    options = parser.parse_args()
    found = {name: measure(ROOT / folder) for name, folder in PACKAGES.items()}
    if options.check:
        wrong = [*budget.over(budget.figures(found, lines_by_file())), *tree.stale()]
        print("\n".join(wrong) or "the tree keeps its budget")
        return 1 if wrong else 0
    if options.lower:
        budget.lower(budget.figures(found, lines_by_file()))
        tree.write()
        return 0
    lines = lines_by_folder()
    if options.json:
        print(json.dumps({name: asdict(structure) for name, structure in found.items()} | {"lines": lines}, indent=2))
    else:
        print(tables(found, lines))
    return 0


def tables(found: Mapping[str, Structure], lines: Mapping[str, int]) -> str:
    rows = [
        ("", *found),
        ("modules", *(f"{one.modules:,}" for one in found.values())),
        ("modules at the root", *(f"{one.root_modules:,}" for one in found.values())),
        ("hand-written lines", *(f"{one.lines:,}" for one in found.values())),
        ("rooms", *(f"{one.rooms:,}" for one in found.values())),
        ("arrows between rooms", *(f"{one.arrows:,}" for one in found.values())),
        ("floors of imports", *(f"{one.floors:,}" for one in found.values())),
        ("floors of packages", *(f"{one.package_floors:,}" for one in found.values())),
        ("circles between modules", *(f"{len(one.module_circles):,}" for one in found.values())),
        ("circles between packages", *(f"{len(one.package_circles):,}" for one in found.values())),
        ("docstrings with a forbidden opening", *(f"{one.forbidden_openings:,}" for one in found.values())),
    ]
    parts = [_table(rows), _table([("folder", "lines"), *((name, f"{count:,}") for name, count in lines.items())])]
    for name, one in found.items():
        parts.append(
            _table([(f"package of the {name}", "lines"), *((key, f"{value:,}") for key, value in one.folders.items())])
        )
        parts.append("\n".join([f"longest chain of the {name}", *(f"  {module}" for module in one.longest_chain)]))
        for what, listed in (("modules", one.module_circles), ("packages", one.package_circles)):
            parts += [f"circle of {what} in the {name}\n  " + "\n  ".join(circle) for circle in listed]
    return "\n\n".join(parts)


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
