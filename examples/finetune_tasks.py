"""The tasks of examples/finetune.py: the head that each trains, its loss, and its scores on the development file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from bertscope_service.analyses.objectives.answered import AnsweredObjective, AnsweredQuery
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.placement import place_rows
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from scipy.stats import pearsonr, spearmanr
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoModelForTokenClassification

from examples.finetune_data import (
    Example,
    index_of,
    indices_of,
    label_names,
    number,
    read_answers,
    read_rows,
    read_words,
)

UNLABELLED = -100
"""The target of a token without a label, which `cross_entropy` leaves out."""
BATCH = 64
"""Examples in a batch of the development file."""


class Task(Protocol):
    """What is learned. kind: transformers' class of the model. settings: entries of its config, with the names of labels.
    train: the examples to learn from."""

    kind: Any
    settings: Mapping[str, Any]

    @property
    def train(self) -> Sequence[Any]: ...

    def prepare(self, model: Any, tokenizer: Any, folder: Path) -> None:
        """Gets the model, its tokenizer, and the folder that they are from."""

    def summary(self) -> str:
        """Describes both files, and what a model that has learned nothing scores."""

    def length(self, example: Any) -> int:
        """Returns a measure of an example's length, by which batches are made."""

    def loss(self, batch: Sequence[Any]) -> torch.Tensor:
        """Returns the mean loss of some examples, differentiable."""

    def scores(self) -> Mapping[str, float]:
        """Returns the scores on the development file, by name."""


@dataclass
class TextTask:
    """A task whose examples are texts. Texts longer than the model reads are cut."""

    kind = AutoModelForSequenceClassification
    train: Sequence[Example]
    dev: Sequence[Example]
    dev_file: Path
    settings: Mapping[str, Any]
    model: Any = None
    tokenizer: Any = None

    def prepare(self, model: Any, tokenizer: Any, folder: Path) -> None:
        self.model, self.tokenizer = model, tokenizer

    def length(self, example: Example) -> int:
        return sum(map(len, example.texts))

    def encode(self, batch: Sequence[Example]) -> Any:
        texts = [list(column) for column in zip(*(example.texts for example in batch), strict=True)]
        return self.tokenizer(*texts, truncation=True, padding=True, return_tensors="pt").to(self.model.device)

    def logits(self, batch: Sequence[Example]) -> torch.Tensor:
        """Returns what the head gives: [n, labels]."""
        return torch.as_tensor(self.model(**self.encode(batch)).logits)

    def dev_batches(self) -> Iterator[list[Example]]:
        for places in in_batches([self.length(example) for example in self.dev], BATCH):
            yield [self.dev[place] for place in places]

    def predictions(self) -> tuple[np.ndarray[Any, Any], list[Any]]:
        """Returns what the head gives the development file, [n, labels], and its targets, both in the same order."""
        parts = [(self.logits(batch), self.targets(batch)) for batch in self.dev_batches()]
        logits = torch.cat([logits for logits, _ in parts]).float().cpu().numpy()
        return logits, [target for _, targets in parts for target in targets]

    def targets(self, batch: Sequence[Example]) -> Any:
        return [example.target for example in batch]


class Labels(TextTask):
    """One of several labels for each text."""

    @classmethod
    def read(cls, options: Any) -> Labels:
        names = names_of(options) or ["0", "1"]
        find, columns = index_of(names), columns_of(options)
        train, dev = (read_rows(path, columns, options.label, find) for path in (options.train, options.dev))
        return cls(train, dev, options.dev, labelled(names) | {"problem_type": "single_label_classification"})

    def summary(self) -> str:
        return commonest([example.target for example in self.dev], self.dev_file, self.settings["id2label"])

    def loss(self, batch: Sequence[Example]) -> torch.Tensor:
        return cross_entropy(self.logits(batch), torch.tensor(self.targets(batch), device=self.model.device))

    def scores(self) -> Mapping[str, float]:
        logits, golds = self.predictions()
        return {"accuracy": float(np.mean(logits.argmax(axis=1) == golds))}


class LabelSets(TextTask):
    """Any number of labels for each text."""

    @classmethod
    def read(cls, options: Any) -> LabelSets:
        names = names_of(options) or label_names(options.train, options.label)
        find, columns = indices_of(names), columns_of(options)
        train, dev = (read_rows(path, columns, options.label, find) for path in (options.train, options.dev))
        return cls(train, dev, options.dev, labelled(names) | {"problem_type": "multi_label_classification"})

    def summary(self) -> str:
        return f"{np.mean([len(labels) for labels in self.targets(self.dev)]):.2f} labels hold for a text in {self.dev_file}"

    def held(self, targets: Sequence[frozenset[int]]) -> torch.Tensor:
        """Returns 1 for each label that holds: [n, labels]."""
        rows = torch.zeros((len(targets), len(self.settings["id2label"])))
        for row, labels in zip(rows, targets, strict=True):
            row[list(labels)] = 1.0
        return rows

    def loss(self, batch: Sequence[Example]) -> torch.Tensor:
        return binary_cross_entropy_with_logits(self.logits(batch), self.held(self.targets(batch)).to(self.model.device))

    def scores(self) -> Mapping[str, float]:
        """F1 of all labels together, and the share of texts whose labels are all right."""
        logits, targets = self.predictions()
        found, gold = logits > 0, self.held(targets).numpy() > 0
        named = found.sum() + gold.sum()
        return {"F1": 2 * (found & gold).sum() / named if named else 0.0, "accuracy": (found == gold).all(axis=1).mean()}


class Values(TextTask):
    """A value for each text or pair."""

    @classmethod
    def read(cls, options: Any) -> Values:
        columns = columns_of(options)
        train, dev = (read_rows(path, columns, options.label, number) for path in (options.train, options.dev))
        return cls(train, dev, options.dev, {"num_labels": 1, "problem_type": "regression"})

    def summary(self) -> str:
        golds = np.array(self.targets(self.dev))
        return f"values from {golds.min():g} to {golds.max():g}, variance {golds.var():.3f}, in {self.dev_file}"

    def loss(self, batch: Sequence[Example]) -> torch.Tensor:
        golds = torch.tensor(self.targets(batch), dtype=torch.float32, device=self.model.device)
        return mse_loss(self.logits(batch)[:, 0], golds)

    def scores(self) -> Mapping[str, float]:
        logits, targets = self.predictions()
        found, golds = logits[:, 0].astype(np.float64), np.array(targets)
        constant = not (np.ptp(found) and np.ptp(golds))
        pearson, spearman = (0.0 if constant else float(by(found, golds).statistic) for by in (pearsonr, spearmanr))
        return {"Pearson": pearson, "Spearman": spearman, "squared error": float(np.mean((found - golds) ** 2))}


class Words(TextTask):
    """A label for each word; its first piece learns it."""

    kind = AutoModelForTokenClassification

    @classmethod
    def read(cls, options: Any) -> Words:
        train, names = read_words(options.train, names_of(options))
        return cls(train, read_words(options.dev, names)[0], options.dev, labelled(names))

    def summary(self) -> str:
        labels = [word.label for example in self.dev for word in example.target]  # type: ignore[union-attr]
        return commonest(labels, self.dev_file, self.settings["id2label"])

    def run(self, batch: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the logits of all tokens [n, labels], and their targets, which most of them lack [n]."""
        encoded = self.encode(batch)
        targets = torch.full(encoded["input_ids"].shape, UNLABELLED)
        for row, words in enumerate(self.targets(batch)):
            for word in words:
                # Of a word without a piece of its own, as part of another's, there is nothing to learn.
                first = next((at for at in range(word.start, word.end) if begins(encoded, row, at)), None)
                if first is not None:
                    targets[row, encoded.char_to_token(row, first)] = word.label
        return torch.as_tensor(self.model(**encoded).logits).flatten(0, 1), targets.flatten().to(self.model.device)

    def loss(self, batch: Sequence[Example]) -> torch.Tensor:
        return cross_entropy(*self.run(batch))

    def scores(self) -> Mapping[str, float]:
        right = total = 0
        for batch in self.dev_batches():
            logits, targets = self.run(batch)
            known = targets != UNLABELLED
            right += int((logits.argmax(-1) == targets)[known].sum())
            total += int(known.sum())
        return {"accuracy": right / total}


Window = tuple[TokenSequence, tuple[int, int]]
"""A row of a question and a part of its passage, and the places of the answer's first and last token."""


@dataclass
class Answers:
    """The span of a passage that answers a question; long passages are read in overlapping windows, as by the server."""

    kind = AutoModelForQuestionAnswering
    settings: Mapping[str, Any]
    queries: Sequence[AnsweredQuery]
    """Of both files."""
    dev_file: Path
    train: Sequence[Window] = ()
    dev: AnsweredObjective = field(init=False)
    model: Any = None

    @classmethod
    def read(cls, options: Any) -> Answers:
        return cls({}, [read_answers(path) for path in (options.train, options.dev)], options.dev)

    def prepare(self, model: Any, tokenizer: Any, folder: Path) -> None:
        self.model = model
        longest = ARCHITECTURES[model.config.model_type](model).max_tokens()
        own = TextTokenizer.load(folder, longest)
        learned, self.dev = (AnsweredObjective(query, own) for query in self.queries)
        golds = [observer.golds[0] for observer in learned.observers]  # type: ignore[attr-defined]
        self.train = list(zip(learned.sequences, golds, strict=True))

    def summary(self) -> str:
        unanswered = np.mean([not question.answers for question in self.queries[1].questions])
        return f"{unanswered:.1%} of {self.dev.items} questions in {self.dev_file} have no answer"

    def length(self, example: Window) -> int:
        return len(example[0])

    def logits(self, rows: Sequence[TokenSequence]) -> torch.Tensor:
        """Returns the scores of beginnings and ends, [rows, length, 2]; those of padding are the lowest."""
        config = self.model.config
        placed = place_rows(rows, self.model.device, config.pad_token_id)
        inputs = {"input_ids": placed.ids, "attention_mask": placed.valid}
        if config.type_vocab_size > 1:
            inputs["token_type_ids"] = placed.segments
        found = self.model(**inputs)
        scores = torch.stack((found.start_logits, found.end_logits), dim=-1)
        return scores if placed.valid is None else scores.masked_fill(~placed.valid[..., None], torch.finfo(scores.dtype).min)

    def loss(self, batch: Sequence[Window]) -> torch.Tensor:
        golds = torch.tensor([gold for _, gold in batch], device=self.model.device)
        return cross_entropy(self.logits([row for row, _ in batch]), golds)

    def scores(self) -> Mapping[str, float]:
        """SQuAD's exact match and F1."""
        rows, seen = self.dev.sequences, dict[int, Any]()
        for places in in_batches([len(row) for row in rows], BATCH):
            found = self.logits([rows[place] for place in places]).float().cpu().numpy()
            seen |= {place: scores[: len(rows[place])] for place, scores in zip(places, found, strict=True)}
        exact, f1, _ = self.dev.measure([seen[place] for place in range(len(rows))]).mean(axis=1)
        return {"exact match": float(exact), "F1": float(f1)}


def begins(encoded: Any, row: int, place: int) -> bool:
    """Returns whether a piece of a text begins at a code point."""
    token = encoded.char_to_token(row, place)
    return token is not None and encoded.token_to_chars(row, token).start == place


def columns_of(options: Any) -> list[str]:
    return [column for column in (options.text, options.text_pair) if column]


def names_of(options: Any) -> list[str]:
    """Returns the names of labels that are given, if any. Raises ValueError as `labelled` does."""
    names: list[str] = options.names.split(",") if options.names else []
    return names and list(labelled(names)["label2id"])


def labelled(names: Sequence[str]) -> dict[str, Any]:
    """Returns the entries of a config for these labels. Raises ValueError if they are fewer than two, or two are the same."""
    if len(set(names)) < max(2, len(names)):
        raise ValueError(f"--names must be two or more different ones, and these are {', '.join(names) or 'none'}")
    return {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}


def commonest(labels: Sequence[Any], file: Path, names: Mapping[int, str]) -> str:
    """Says how often the commonest label is right."""
    [(label, count)] = Counter(labels).most_common(1)
    return f"of {len(labels)} in {file}, {count / len(labels):.1%} are {names[label]}"


TASKS: Mapping[str, Callable[[Any], Task]] = {
    "labels": Labels.read,
    "label-sets": LabelSets.read,
    "values": Values.read,
    "words": Words.read,
    "answers": Answers.read,
}
"""The function that reads the files of each task."""


def in_batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yields the places of all examples in random order, those of like length together."""
    order = torch.randperm(len(lengths)).tolist()
    span = 50 * size  # what is sorted together: enough to pad little, little enough that every epoch mixes anew
    groups = [sorted(order[start : start + span], key=lengths.__getitem__) for start in range(0, len(order), span)]
    parts = [group[start : start + size] for group in groups for start in range(0, len(group), size)]
    yield from (parts[part] for part in torch.randperm(len(parts)).tolist())
