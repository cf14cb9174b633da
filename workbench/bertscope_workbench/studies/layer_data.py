"""Finds the treebank of a study of layers, and divides its sentences into those that train, stop and test probes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bertscope import ProbeText
from bertscope.errors import invalid_argument
from bertscope.values.display import record

from bertscope_workbench.readers.treebanks import ConlluLabel, read_probe_conllu

PARTS = ("train", "dev", "test")
EVERY = 10
"""Without files of their own, the last but one of so many sentences is of the dev part, and the last of the test part; of a
smaller file one sentence each."""


@record
class Treebank:
    """The files of a treebank: one for each part, or one for all."""

    files: tuple[Path, ...]
    """The files, of train, dev and test; one if its sentences are divided."""
    limit: int
    """The most sentences of each file."""

    def parts(self, label: ConlluLabel) -> tuple[Sequence[ProbeText], Sequence[ProbeText], Sequence[ProbeText]]:
        """Returns the sentences of the three parts, their words labelled. Raises InvalidArgument and OSError."""
        read = [read_probe_conllu(path, label, limit=self.limit) for path in self.files]
        if len(read) > 1:
            train, dev, test = read
            return train, dev, test
        (all_texts,) = read
        every = min(EVERY, len(all_texts))
        rest = [text for number, text in enumerate(all_texts) if number % every < every - 2]
        return rest, all_texts[every - 2 :: every], all_texts[every - 1 :: every]

    def sentences(self) -> list[ProbeText]:
        """Returns the sentences of all parts, with parts of speech."""
        return [text for part in self.parts("upos") for text in part]

    @property
    def division(self) -> str:
        """How the sentences are divided, in words."""
        if len(self.files) > 1:
            return f"trained on {self.files[0]}, stopped on {self.files[1]}, tested on {self.files[2]}"
        return f"{self.files[0]}: of {EVERY} sentences eight train, one stops training, one tests"


def find_treebank(folder: str | Path, limit: int) -> Treebank:
    """Returns the treebank of a folder and the folders in it: files with train, dev and test in their names, or one file.

    Of several files the first of each part is taken, by name. Raises InvalidArgument for a folder without a .conllu file.
    """
    folder = Path(folder)
    found = sorted(folder.rglob("*.conllu")) if folder.is_dir() else []
    if not found:
        raise invalid_argument("data", f"{folder} has no treebank; put a CoNLL-U file (.conllu) into it")
    named = [next((path for path in found if part in path.stem.lower()), None) for part in PARTS]
    files = tuple(path for path in named if path is not None)
    return Treebank(files if len(files) == len(PARTS) else (files or tuple(found))[:1], limit)
