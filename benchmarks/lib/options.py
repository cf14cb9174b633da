"""Defines flags that reports share."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_report_options(parser: argparse.ArgumentParser, *, seed_of: str, plot_of: str) -> None:
    """Adds --seed, --serve, --plot and --json; each report defines what the seed decides and the plot shows."""
    parser.add_argument("--seed", type=int, default=5, help=f"of {seed_of}")
    parser.add_argument("--serve", default="", metavar="FLAGS", help='flags of the server, in one string: "--threads 2"')
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help=f"draw {plot_of}; .svg and .pdf too")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
