"""Makes the gallery: pages that commands write about models that are here, by a server that is started for them.

Each page is what its command writes, and loads nothing. Without a gallery the site is whole, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bertscope_workbench.command.commands.demo import running_server
from bertscope_workbench.command.views.output import console

ROOT = Path(__file__).resolve().parents[2]
PAGE = "gallery.md"
FOLDER = "gallery"
EMBEDDED = "bertscope-mini"
START_SECONDS = 600


class Piece(NamedTuple):
    """A page of the gallery: the words of its command, its title, and the page of docs/ that explains it."""

    command: str
    title: str
    docs: str

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.command.removeprefix('study ').partition(' ')[0]}.html"


PIECES = (
    Piece("primer", "Which claims of A Primer in BERTology hold", "primer.md"),
    Piece("study capitals", "Capitals and countries", "studies.md"),
    Piece("study negation --only capitals --only misprimed-capitals", "Facts, negated and misprimed", "studies.md"),
    Piece("study layers --data examples", "What each layer holds", "studies.md"),
    Piece("study dark-secrets --data examples", "The dark secrets of BERT, again", "dark-secrets.md"),
)


def write_gallery(pages: Path, models: Sequence[str], pieces: Sequence[Piece] = PIECES) -> None:
    """Asks each of the models, "NAME" or "NAME=SOURCE" as `bertscope serve --model` takes them, for each piece, and writes the
    gallery into the folder of the site's pages. Raises SystemExit for a command that fails."""
    screen = console(stderr=True)
    flags = [flag for model in models for flag in ("--model", model)]
    names = [model.partition("=")[0] for model in models]
    with running_server(screen, START_SECONDS, flags) as (_, target):
        for name in names:
            (pages / FOLDER / name).mkdir(parents=True)
            for piece in pieces:
                with screen.status(f"{name}: bertscope {piece.command}"):
                    _write(pages / FOLDER / name / piece.file, piece, name, target)
    (pages / PAGE).write_text(index(names, pieces), encoding="utf-8")


def index(models: Sequence[str], pieces: Sequence[Piece] = PIECES) -> str:
    """Returns the page that lists the gallery."""
    parts = [
        "# Gallery\n",
        "Pages that commands wrote about these models. Each says what was asked, of which data, and by which papers.\n",
    ]
    for model in models:
        rows = (
            f"| [{piece.title}]({FOLDER}/{model}/{piece.file}) | [`bertscope {piece.command}`]({piece.docs}) |"
            for piece in pieces
        )
        parts += [f"## {model}\n", "| page | command |", "|---|---|", *rows, ""]
    return "\n".join(parts)


def _write(page: Path, piece: Piece, model: str, target: str) -> None:
    bertscope = Path(sys.executable).with_name("bertscope")
    command = [str(bertscope), *piece.command.split(), "--model", model, "--output", str(page)]
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=os.environ | {"BERTSCOPE_TARGET": target}, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[1:])}: {done.stderr.strip()}")
