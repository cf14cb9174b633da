"""Declares the options of scripts: each names those that it takes, and one parser is made of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its name, and what `ArgumentParser.add_argument` takes."""

    name: str
    settings: dict[str, Any]


def option(name: str, help_text: str, default: Any = None, **settings: Any) -> Option:
    """Returns an option, whose values are of its default's type unless `type` says otherwise."""
    given = {"help": help_text, "default": default, **settings}
    if "type" not in given and "action" not in given and isinstance(default, int | float):
        given["type"] = type(default)
    return Option(name, given)


def flag(name: str, help_text: str) -> Option:
    """Returns an option that takes no value."""
    return Option(name, {"help": help_text, "action": "store_true"})


def rounds(default: int = 5) -> Option:
    """Returns the option of how often both sides run in turn."""
    return option("--rounds", "rounds of each comparison, at least 5 for a figure to quote", default)


def seconds(default: float, of: str) -> Option:
    """Returns the option of how long a part lasts."""
    return option("--seconds", f"seconds {of}", default)


ROUNDS = rounds()
JSON = flag("--json", "print one JSON document in place of tables")
OUTPUT = option("--output", "write the JSON document to this file, too", type=Path, metavar="FILE.json")
RUNTIME = option("--runtime", "the server's", "torch", choices=("torch", "onnx", "auto"))
SENTENCES = option("--texts", "a treebank (.conllu), or a file with a sentence on each line; none: random words", type=Path)
SEED = option("--seed", "of what is drawn by chance", 5)
CLAIMS = option("--only", "ask this claim or section alone; repeatable", action="append")


def serve(default: str = "") -> Option:
    """Returns the option of the servers' flags."""
    return option("--serve", 'flags of the servers, in one string: "--threads 2"', default, metavar="FLAGS")


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Prints descriptions as they are written, and defaults."""


def parser(
    program: str, description: str | None, options: Sequence[Option], epilog: str | None = None
) -> argparse.ArgumentParser:
    """Returns the parser of some options, and of those that all scripts have."""
    made = argparse.ArgumentParser(prog=program, description=description, epilog=epilog, formatter_class=Help)
    for one in (*options, JSON, OUTPUT):
        made.add_argument(one.name, **one.settings)
    return made
