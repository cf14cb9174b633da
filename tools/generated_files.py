"""Writes generated files, or checks that what is committed is fresh: the command line of every generator of `make client`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(description: str | None, generated: Callable[[], Mapping[Path, str]], origin: str, there: Iterable[Path] = ()) -> int:
    """Runs a generator's command and returns the exit code.

    `generated` returns every file by its path, `origin` says what makes them ("its source makes"). Files that are `there` and
    no longer generated are stale, too, and are removed.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the files are fresh")
    check = parser.parse_args().check
    files = generated()
    found = {path: path.read_text(encoding="utf-8") for path in {*files, *there} if path.exists()}
    stale = sorted(path for path in files.keys() | found.keys() if files.get(path) != found.get(path))
    for path in stale:
        if check:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not what {origin}; run `make client`\n")
        elif path in files:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
        else:
            path.unlink()
    return 1 if check and stale else 0
