"""Finds labelled texts in the folder of --data, and the file whose labels a classifier has.

Labelled texts are .tsv, .csv or .jsonl files with a column of labels and one or two of texts, as GLUE names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bertscope import InvalidArgument, Model
from bertscope.values.display import record
from bertscope.values.validation import TextOrPair

from bertscope_workbench.papers.estimates import NotAsked
from bertscope_workbench.papers.items import Data
from bertscope_workbench.readers import files
from bertscope_workbench.readers.item_lists import Items

if TYPE_CHECKING:
    from bertscope_workbench.papers.asking import Asking

TABLES = ("*.tsv", "*.csv", "*.jsonl")
LABEL_COLUMNS = ("label", "labels", "gold_label")
TEXT_COLUMNS = (
    ("text", "text_pair"), ("text_a", "text_b"), ("sentence1", "sentence2"), ("question1", "question2"),
    ("question", "sentence"), ("premise", "hypothesis"), ("sentence", None),
)  # fmt: skip
"""Columns of texts, and of the second texts of pairs, as GLUE's tables and their copies name them."""
TEXTS = 1_000
"""The most texts of a file, unless the data have another limit."""
TRIED = 100
"""Texts of each file that a classifier tries, if several files have its labels."""


@record
class Labelled:
    """Labelled texts of one file."""

    path: Path
    items: Items[tuple[TextOrPair, str | int]]
    """Texts or pairs, and labels: names or indices."""

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


def labelled_files(data: Data) -> list[Labelled]:
    """Returns the files of labelled texts, by name, those for training last; other tables, and broken ones, are left out."""
    found = (_read(path, data.limit or TEXTS) for path in data.files(*TABLES))
    return sorted((each for each in found if each is not None), key=lambda each: each.for_training)


def task_of(asking: Asking) -> tuple[Labelled, Model]:
    """Returns the labelled texts whose labels the fine-tuned copy has, or the model, and which of the two.

    Of several files it is the one on which it beats the commonest label most; files for training only if there is no other.

    Raises NotAsked without a classifier, and without texts that have its labels.
    """
    return asking.kept("labelled texts of the task", lambda: _task(asking))


def _task(asking: Asking) -> tuple[Labelled, Model]:
    models = [each for each in (asking.fine_tuned, asking.model) if each is not None and "classification" in each.capabilities]
    if not models:
        raise NotAsked("neither the model nor a copy of it (--fine-tuned) classifies texts")
    if asking.data.folder is None:
        raise NotAsked("it needs labelled texts; name their folder with --data")
    known = labelled_files(asking.data)
    for model in models:
        fitting = [each for each in known if _fits(each, model)]
        fitting = [each for each in fitting if not each.for_training] or fitting
        if len(fitting) > 1:
            return max(fitting, key=lambda each: _above_commonest(asking, model, each)), model
        if fitting:
            return fitting[0], model
    raise NotAsked(f"no labelled texts in the folder of --data have the labels {', '.join(models[0].labels)}")


def label_index(model: Model, label: str | int) -> int:
    """Returns the index of a label among those of a model that has it."""
    return model.labels.index(label) if isinstance(label, str) else label


def _fits(labelled: Labelled, model: Model) -> bool:
    labels = {label for _, label in labelled.items}
    return all(label in model.labels if isinstance(label, str) else label < len(model.labels) for label in labels)


def _above_commonest(asking: Asking, model: Model, labelled: Labelled) -> float:
    """Returns the accuracy on the first texts of a file, less the share of their commonest label."""
    items = labelled.items[:TRIED]
    answers = asking.client.classify([text for text, _ in items], model=model, truncate=True, timeout=asking.timeout)
    labels = [label_index(model, label) for _, label in items]
    correct = sum(answer.labels[0].index == label for answer, label in zip(answers, labels, strict=True))
    return (correct - Counter(labels).most_common(1)[0][1]) / len(items)


def _read(path: Path, limit: int) -> Labelled | None:
    for columns in _mappings():
        try:
            return Labelled(path, files.read_labelled(path, columns=columns, limit=limit))
        except (InvalidArgument, OSError):
            continue
    return None


def _mappings() -> Iterator[dict[str, str]]:
    """Yields the names that columns may have."""
    for label in LABEL_COLUMNS:
        for text, pair in TEXT_COLUMNS:
            yield {"label": label, "text": text} | ({"text_pair": pair} if pair else {})
