"""Finds the data of a study in a folder: by what files contain, whatever they are called.

A treebank is a .conllu file whose words have ten columns; a PropBank file has more, and holds dependencies as well. Labelled
texts are .tsv, .csv or .jsonl files with a column of labels and one or two of texts, as GLUE names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from bertscope import FeatureText, InvalidArgument, ProbeText, RelationText
from bertscope.errors import invalid_argument
from bertscope.values.display import record
from bertscope.values.validation import TextOrPair

from bertscope_workbench.readers import files
from bertscope_workbench.readers.item_lists import Items, PartialItems
from bertscope_workbench.readers.treebanks import (
    ConlluLabel,
    read_conllu,
    read_conllu_features,
    read_probe_conllu,
    read_propbank,
)

TREEBANKS, TABLES = (".conllu",), (".tsv", ".csv", ".jsonl")
CONLLU_COLUMNS = 10
TEXT_COLUMNS = (
    ("text", "text_pair"),
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("sentence", None),
)
"""Columns of texts, and of the second texts of pairs, as GLUE's tables and their copies name them."""
LABEL_COLUMNS = ("label", "labels", "gold_label")
MAX_LABELLED = 10_000
"""The most items of one sweep."""
PARTS = ("train", "dev", "test")
EVERY = 10
"""Without files of their own, the last but one of so many sentences is of the dev part, and the last of the test part; of a
smaller file one sentence each."""


@record
class Labelled:
    """Labelled texts of one file."""

    path: Path
    """The file."""
    columns: dict[str, str]
    """Its names of the columns "text", "label" and maybe "text_pair"."""
    items: Items[tuple[TextOrPair, str | int]]
    """Texts and labels."""

    @property
    def inputs(self) -> list[TextOrPair]:
        """The texts, without their labels."""
        return [text for text, _ in self.items]

    @property
    def of_pairs(self) -> bool:
        """True if the texts are pairs."""
        return isinstance(self.items[0][0], tuple)

    @property
    def for_training(self) -> bool:
        """True if the name of the file says that models are trained on it."""
        return "train" in self.path.stem.lower()


@record(frozen=False)
class StudyData:
    """The data that a folder holds."""

    limit: int | None
    """The most texts of each file."""
    treebank: Path | None = None
    """The file with dependencies."""
    dependencies: PartialItems[RelationText] = field(default_factory=PartialItems)
    """Its dependencies, without subtypes: from a word to what depends on it."""
    features: PartialItems[FeatureText] = field(default_factory=PartialItems)
    """Its words with features."""
    propbank: Path | None = None
    """The file with roles."""
    roles: PartialItems[RelationText] = field(default_factory=PartialItems)
    """Its roles: from a predicate to its argument."""
    labelled: list[Labelled] = field(default_factory=list)
    """Files of labelled texts, those for training last."""
    unused: list[tuple[str, str]] = field(default_factory=list)
    """Files that hold none of this, and why."""

    @property
    def empty(self) -> bool:
        """True if nothing can be studied."""
        return self.treebank is None and self.propbank is None and not self.labelled

    def texts(self) -> list[TextOrPair]:
        """Returns the sentences of the treebank."""
        return [sentence.text for sentence in self.dependencies]


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


def find_data(folder: str | Path, limit: int | None = None) -> StudyData:
    """Returns what a folder and the folders in it hold; of each file, the first `limit` texts.

    Of several treebanks the first is taken, by name. Raises OSError for a folder that can't be read, and InvalidArgument if it
    has neither a treebank, nor roles, nor labelled texts.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise invalid_argument("data", f"{folder} is not a folder; name one with treebanks or labelled texts")
    found = StudyData(limit)
    for path in _files(folder):
        try:
            (_take_treebank if path.suffix.lower() in TREEBANKS else _take_labelled)(found, path)
        except InvalidArgument as error:
            found.unused.append((str(path), str(error).removeprefix(f"{path}: ").removeprefix(f"{path}, ")))
        except OSError as error:
            found.unused.append((str(path), f"can't be read: {error.strerror}"))
    if found.treebank is None and found.propbank is not None:
        _read_dependencies(found, found.propbank)
    if found.empty:
        first = f"; {found.unused[0][0]}: {found.unused[0][1]}" if found.unused else ""
        wanted = "a treebank (.conllu), a PropBank file, or labelled texts (.tsv, .csv or .jsonl with a label and a text)"
        raise invalid_argument("data", f"{folder} has nothing to study: put {wanted} into it{first}")
    found.labelled.sort(key=lambda labelled: labelled.for_training)
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in (*TREEBANKS, *TABLES) and path.is_file() and not hidden:
            yield path


def _take_treebank(found: StudyData, path: Path) -> None:
    columns = _word_columns(path)
    if columns > CONLLU_COLUMNS and found.propbank is None:
        found.roles, found.propbank = read_propbank(path, limit=found.limit), path
    elif columns == CONLLU_COLUMNS and found.treebank is None:
        _read_dependencies(found, path)
    else:
        other = found.propbank if columns > CONLLU_COLUMNS else found.treebank
        why = f"{other} is taken; a study reads one" if columns >= CONLLU_COLUMNS else f"has words of {columns} columns, not 10"
        found.unused.append((str(path), why))


def _read_dependencies(found: StudyData, path: Path) -> None:
    found.dependencies = read_conllu(path, subtypes=False, limit=found.limit)
    found.features = read_conllu_features(path, limit=found.limit)
    found.treebank = path


def _word_columns(path: Path) -> int:
    """Returns the number of columns of a file's first word; 0 without one."""
    with path.open("rb") as file:
        return next((line.count(b"\t") + 1 for line in file if line[:1].isdigit()), 0)


def _take_labelled(found: StudyData, path: Path) -> None:
    problem: InvalidArgument | None = None
    for columns in _mappings():
        try:
            files.read_labelled(path, columns=columns, limit=1)
        except InvalidArgument as error:
            problem = problem or error
            continue
        limit = min(found.limit or MAX_LABELLED, MAX_LABELLED)
        found.labelled.append(Labelled(path, columns, files.read_labelled(path, columns=columns, limit=limit)))
        return
    if problem is not None:
        raise problem


def _mappings() -> Iterator[dict[str, str]]:
    """Yields the names that columns may have."""
    for label in LABEL_COLUMNS:
        for text, pair in TEXT_COLUMNS:
            yield {"label": label, "text": text} | ({"text_pair": pair} if pair else {})


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
