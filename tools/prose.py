"""Checks that every docstring begins with a subject or a verb.

    python -m tools.prose

Reads the service, the client, the benchmarks and the tools, without generated files and without folders of tests, whose
names are their documentation. Prints FILE:LINE and the first words of each docstring, of a module, class, function or
attribute, that begins with a word of `FORBIDDEN_OPENINGS`, and exits with status 1 if there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tools.structure.measures import FORBIDDEN_OPENINGS, PACKAGES, ROOT, forbidden_docstrings

FOLDERS = tuple(ROOT / folder for folder in (*PACKAGES.values(), "benchmarks", "tools"))
"""Folders whose docstrings are checked."""


def main(folders: Sequence[Path] = FOLDERS) -> int:
    """Prints the forbidden openings below some folders. Returns the process's exit status."""
    found = [line for folder in folders for line in forbidden_docstrings(folder)]
    if found:
        print("\n".join(found))
        print(f"{len(found)} docstrings begin with one of: {', '.join(FORBIDDEN_OPENINGS)}; begin with a subject or a verb")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
