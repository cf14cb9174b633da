"""`bertscope-server cache list|prune`, and `bertscope cache`: the exported graphs that a cache folder keeps."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bertscope_service.models.kept_exports import UNUSED_SECONDS, KeptExport, exports_folder, kept_exports, locked, prune
from bertscope_service.settings import PREFIX, Settings

DAY = 24 * 3600.0
VARIABLE = PREFIX + "CACHE_FOLDER"


def run(argv: Sequence[str]) -> int:
    """Runs the command. Returns 0, or 1 if the cache can't be written."""
    arguments = _parser().parse_args(argv)
    cache: Path = arguments.cache_folder.expanduser().absolute()
    if arguments.action == "list":
        _list(cache)
        return 0
    return _prune(cache, arguments.days, arguments.all_versions, arguments.dry_run)


def _parser() -> argparse.ArgumentParser:
    usual = Path(os.environ.get(VARIABLE) or Settings.model_fields["cache_folder"].default)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--cache-folder", type=Path, default=usual, metavar="FOLDER", help=f"of the server; else {VARIABLE}, else {usual}"
    )
    parser = argparse.ArgumentParser(prog="bertscope cache", description="Exported graphs that servers keep in a cache folder.")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list", parents=[shared], help="show each export, its size and its last use")
    pruning = actions.add_parser("prune", parents=[shared], help="remove exports of other versions that no server has used")
    pruning.add_argument(
        "--days", type=_days, default=UNUSED_SECONDS / DAY, metavar="N", help="unused for at least N days; 7 unless given"
    )
    pruning.add_argument("--all-versions", action="store_true", help="also exports that this version would use")
    pruning.add_argument("--dry-run", action="store_true", help="say what would go, and remove nothing")
    return parser


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days; give 0 or more")
    return days


def _list(cache: Path) -> None:
    exports = kept_exports(cache)
    if not exports:
        print(f"{cache} holds no exported graphs")
        return
    form = "{:<28}  {:<12}  {:>12}  {:<12}  {:<11}  {:<9}  {}"
    print(form.format("model", "weights", "size", "last used", "usable here", "bertscope", "folder"))
    for one in exports:
        first = (one.model, _short(one.digest), _megabytes(one.size_bytes), _ago(one.used))
        print(form.format(*first, "yes" if one.current else "no", one.bertscope, one.folder.name))
    print(f"\n{_count(exports)}, {_megabytes(sum(export.size_bytes for export in exports))}, in {exports_folder(cache)}")


def _prune(cache: Path, days: float, current: bool, dry_run: bool) -> int:
    graphs, seconds = exports_folder(cache), days * DAY
    if not graphs.is_dir():
        print(f"{cache} holds no exported graphs")
        return 0
    try:
        if dry_run:
            removed = prune(graphs, seconds, current=current, dry_run=True)
        else:
            with locked(graphs):
                removed = prune(graphs, seconds, current=current)
    except OSError as error:
        print(f"bertscope cache: {graphs} can't be written: {error.strerror}", file=sys.stderr)
        return 1
    if not removed:
        print("nothing to remove")
        return 0
    for export in removed:
        print(f"{export.folder.name}  {export.model}, of bertscope {export.bertscope}, last used {_ago(export.used)}")
    said = "would remove" if dry_run else "removed"
    print(f"{said} {_count(removed)}, {_megabytes(sum(export.size_bytes for export in removed))}")
    return 0


def _count(exports: Sequence[KeptExport]) -> str:
    return f"{len(exports)} export{'s' * (len(exports) != 1)}"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12] or "?"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _ago(used: float) -> str:
    days = int((time.time() - used) // DAY)
    return "today" if days < 1 else f"{days} day{'s' * (days != 1)} ago"
