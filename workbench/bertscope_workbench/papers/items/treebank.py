"""The treebank of the primer: files of --data, or sentences that are generated with their trees."""

from collections.abc import Callable, Sequence
from pathlib import Path

from bertscope import ProbeText
from bertscope.values.display import record
from bertscope.values.labelled_texts import Label

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import NotAsked
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.items.generated import sentences as generated
from bertscope_workbench.readers import treebanks
from bertscope_workbench.readers.conllu import Sentence, read_sentences
from bertscope_workbench.readers.item_lists import PartialItems

PARTS = ("train", "dev", "test")
PATTERN = (0, 0, 0, 0, 0, 0, 1, 2, 2, 2)
"""Parts that ten sentences in a row go to, where no files say it: six train, one ends training, three test."""
MISC, COLUMNS = 9, 10


@record
class Treebank:
    """Sentences with their words, trees and features, in three parts.

    A `Sentence` of `readers.conllu` has its `text`, the columns of each word by number (`rows[1][3]` is the part of speech of
    the first word), and the place of each in the text (`spans[places[1]]`).
    """

    train: tuple[Sentence, ...]
    """Sentences that probes are trained on."""
    dev: tuple[Sentence, ...]
    """Sentences that end training."""
    test: tuple[Sentence, ...]
    """Sentences that are scored, and that what needs no training is asked."""
    source: str
    """Where they are from, with the licence where it is known, in words."""
    generated: bool
    """True for our own sentences: only these have roles and entities."""

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """All sentences."""
        return (*self.train, *self.dev, *self.test)

    def parts(self, label: Callable[[Sentence], ProbeText]) -> tuple[list[ProbeText], list[ProbeText], list[ProbeText]]:
        """Returns the three parts for `train_probe`, labelled by a function such as `by_column("upos")`, `role_labels` and
        `entity_labels`. Sentences without a label are left out."""
        train, dev, test = ([text for text in map(label, part) if text.labels] for part in (self.train, self.dev, self.test))
        return train, dev, test


def treebank(data: Data) -> Treebank:
    """Returns the treebank that the folder of --data holds, or 1,200 English sentences that are generated, always the same.

    Of the folder's CoNLL-U files with ten columns, the first with train, dev and test in its name is each part; else the
    sentences of the first one are divided. `data.limit` is the most sentences of each part.

    Raises OSError for a file that can't be read, and InvalidArgument if no sentence of it can be.
    """
    found = [path for path in data.files("*.conllu") if word_columns(path) == COLUMNS]
    if not found:
        own = generated()
        source = f"sentences that the primer generates ({len(own):,} with their trees; licence of the project)"
        return _divided(own, data.limit, source, generated=True)
    named = [next((path for path in found if part in path.stem.lower()), None) for part in PARTS]
    chosen = [path for path in named if path is not None]
    if len(chosen) < len(PARTS):
        return _divided(_read(found[0], None), data.limit, f"sentences of {found[0].name} (--data)", generated=False)
    train, dev, test = (tuple(_read(path, data.limit)) for path in chosen)
    names = ", ".join(path.name for path in chosen)
    return Treebank(train, dev, test, f"sentences of {names} (--data)", False)


def given_bank(asking: Asking) -> Treebank | None:
    """Returns the treebank of --data; None without one."""
    bank: Treebank = asking.kept("treebank", lambda: treebank(asking.data))
    return None if bank.generated else bank


def bank_of(asking: Asking) -> Treebank:
    """Returns the treebank that measures ask about, which is read or generated once.

    Raises NotAsked in a language other than English without a treebank in --data.
    """
    bank: Treebank = asking.kept("treebank", lambda: treebank(asking.data))
    if bank.generated and asking.language != "en":
        raise NotAsked(f"the treebank that ships is English, and the language asked is {asking.language}: give one by --data")
    return bank


def by_column(label: treebanks.ConlluLabel) -> Callable[[Sentence], ProbeText]:
    """Returns the function that labels the words of a sentence as `read_probe_conllu` does: "upos", "deprel", "head"..."""
    return lambda sentence: treebanks.probe_text(sentence, label)


def role_labels(sentence: Sentence) -> ProbeText:
    """Returns a sentence whose pairs of a predicate and the head of its argument are labelled by the role: "Agent", "Time"...

    Only generated sentences have roles.
    """
    labels = []
    for number, row in sentence.rows.items():
        role, head = misc(row).get("Role"), int(row[treebanks.HEAD])
        if role and head:
            places = [sentence.spans[sentence.places[one]] for one in (head, number)]
            labels.append(Label(role, *places[0], places[1]))
    return ProbeText(sentence.text, tuple(labels))


def entity_labels(sentence: Sentence, *, others: bool = True) -> ProbeText:
    """Returns a sentence with its entities, each as one span: "PERSON", "PLACE", "ORG", "TIME", "NUMBER".

    With `others` each other word is "O". Only generated sentences have entities.
    """
    labels: list[Label] = []
    for number, row in sentence.rows.items():
        tag, (start, end, _) = misc(row).get("Entity", "O"), sentence.spans[sentence.places[number]]
        if tag.startswith("I-") and labels:
            labels[-1] = labels[-1]._replace(end=end)
        elif tag != "O" or others:
            labels.append(Label(tag.removeprefix("B-"), start, end))
    return ProbeText(sentence.text, tuple(labels))


def misc(row: Sequence[str]) -> dict[str, str]:
    """Returns what the last column of a word says, by name."""
    return dict(one.partition("=")[::2] for one in row[MISC].split("|") if "=" in one)


def feature(row: Sequence[str], name: str) -> str:
    """Returns a feature of a word ("Number"), "" if it has none."""
    return dict(one.partition("=")[::2] for one in row[treebanks.FEATS].split("|") if "=" in one).get(name, "")


def _read(path: Path, limit: int | None) -> PartialItems[Sentence]:
    return read_sentences(path, limit, _whole, PartialItems[Sentence]())


def _whole(sentence: Sentence) -> Sentence:
    """Returns a sentence whose heads make up a tree. Raises BadLine for another."""
    treebanks.tree_text(sentence)
    return sentence


def _divided(sentences: Sequence[Sentence], limit: int | None, source: str, *, generated: bool) -> Treebank:
    parts: tuple[list[Sentence], ...] = ([], [], [])
    for number, sentence in enumerate(sentences):
        part = parts[PATTERN[number % len(PATTERN)]]
        if limit is None or len(part) < limit:
            part.append(sentence)
    train, dev, test = map(tuple, parts)
    return Treebank(train, dev, test, source, generated)


def word_columns(path: Path) -> int:
    """Returns the number of columns of a file's first word; 0 without one."""
    with path.open("rb") as file:
        return next((line.count(b"\t") + 1 for line in file if line[:1].isdigit()), 0)
