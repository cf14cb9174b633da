"""The items that claims are asked on: those that ship, and the files of a folder of the user's."""

import importlib.resources
from importlib.resources.abc import Traversable
from pathlib import Path

from bertscope.errors import invalid_argument
from bertscope.values.display import record

from bertscope_workbench.papers.published.item_kinds import within

SUFFIXES = (".conllu", ".csv", ".json", ".jsonl", ".tab", ".tsv", ".txt")
"""Ends of the names of files that claims read."""


@record
class Data:
    """Where items come from."""

    folder: Path | None = None
    """The folder of --data; None if only what ships is asked."""
    limit: int | None = None
    """The most items of each file; None: all."""
    vocabulary: Path | None = None
    """A file of words, one a line, among which reproductions rank blanks and facts; None: those of the model."""

    own: tuple[Path, ...] = ()
    """Files and folders that the run itself writes, which are no data even if they lie in the folder."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for what is no folder, and for one without a file that claims read."""
        if self.folder is not None and not self.folder.is_dir():
            raise invalid_argument("data", f"{self.folder} is not a folder; name one with public data")
        if self.folder is not None and not self.files(*(f"*{suffix}" for suffix in SUFFIXES)):
            raise invalid_argument(
                "data", f"{self.folder} has no file that a claim reads: none ends with {', '.join(SUFFIXES)}"
            )

    def files(self, *patterns: str) -> list[Path]:
        """Returns the folder's files, and those of the folders in it, whose names fit a pattern ("*.conllu"), by name."""
        if self.folder is None:
            return []
        try:
            found = {path for pattern in patterns for path in self.folder.rglob(pattern) if path.is_file()}
        except (NotImplementedError, ValueError) as error:
            raise invalid_argument("files", f"{' or '.join(patterns)} is no pattern of names in a folder ({error})") from None
        visible = (path for path in found if not any(part.startswith(".") for part in path.relative_to(self.folder).parts))
        return sorted(path for path in visible if not within(path, self.own))


def shipped(name: str) -> Traversable:
    """Returns a file of this package, such as "senses.toml"."""
    return importlib.resources.files(__name__).joinpath(name)


def plain_sentences(language: str) -> list[str]:
    """Returns sixty plain sentences in a language, the same ones in each and in the same order; none if none ship in it."""
    file = shipped("sentences").joinpath(f"{language}.txt")
    return file.read_text("utf-8").splitlines() if file.is_file() else []


def table(name: str) -> list[dict[str, str]]:
    """Returns the rows of a file of this package with tabs and a head line, such as "names.tsv"."""
    head, *rows = (line.split("\t") for line in shipped(name).read_text("utf-8").splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]
