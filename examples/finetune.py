"""Fine-tune a model to classify texts, or with --words the words of texts, into a folder that the server can host.

    python examples/finetune.py --train train.tsv --dev dev.tsv --text sentence --names negative,positive --output sst2
    bertscope serve --model sst2=./sst2

    python examples/finetune.py --words --train train.conllu --dev dev.conllu --output upos
    bertscope serve --model upos=./upos

The first line of a file of texts names its columns. A file of words is a treebank (.conllu, parts of speech), .tsv of words and
labels with a blank line between sentences (so may be named entities, as "B-PER"), or .jsonl of spans; the first piece of a word
learns its label. Without --model the embedded bertscope-mini is tuned, which has no pooler: pooler
and classifier start from random weights. The weights after the last epoch are saved, not those of the best one on --dev, so
that no epoch is chosen by texts that something may be measured on later.
"""

import argparse
import math
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bertscope
import torch
from bertscope_service.checkpoints.sources import locate
from bertscope_service.embedded import EMBEDDED
from bertscope_service.errors import ServiceError
from torch.nn.functional import cross_entropy
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    get_linear_schedule_with_warmup,
)
from transformers.utils import logging

UNLABELLED = -100
"""The target of a token without a label, which `cross_entropy` leaves out."""


class Word(NamedTuple):
    """A word of a text: its first code point, the one past its last, and the index of its label."""

    start: int
    end: int
    label: int


class Example(NamedTuple):
    """A text or a pair, and the index of its label, or a text and its words."""

    texts: tuple[str, ...]
    label: int
    words: tuple[Word, ...] = ()

    @property
    def labels(self) -> list[int]:
        """The labels to learn: one, or that of each word."""
        return [word.label for word in self.words] or [self.label]


def read(path: Path, columns: Sequence[str], label: str, names: Sequence[str]) -> list[Example]:
    """The examples of a TSV file; a label is a name or its index. Raises ValueError, naming file and line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from error
    header, *rows = [line.split("\t") for line in lines]
    for column in (*columns, label):
        if column not in header:
            raise ValueError(f"{path} has no column {column!r}; its columns are {', '.join(header)}")
    indices = {str(index): index for index in range(len(names))} | {name: index for index, name in enumerate(names)}
    examples = []
    for number, cells in enumerate(rows, start=2):
        if len(cells) != len(header):
            raise ValueError(f"{path} line {number} has {len(cells)} columns, the first line has {len(header)}")
        row = dict(zip(header, cells, strict=True))
        if row[label] not in indices:
            raise ValueError(f"{path} line {number}: label {row[label]!r} is none of {', '.join(indices)}; see --names")
        examples.append(Example(tuple(row[column] for column in columns), indices[row[label]]))
    if not examples:
        raise ValueError(f"{path} has no examples, only the names of its columns")
    return examples


def read_words(path: Path, names: Sequence[str]) -> tuple[list[Example], list[str]]:
    """The texts of a file with labelled words, and the names of the labels: `names`, or all in the file if there are none.

    Raises ValueError, naming the file, for one that can't be read.
    """
    texts = bertscope.read_probe_texts(path)
    if texts.problems:
        raise ValueError(str(texts.problems[0]))
    names = names or sorted({name for text in texts for name, *_ in text.labels})
    indices = {name: index for index, name in enumerate(names)}
    examples = []
    for text, line in zip(texts, texts.lines, strict=True):
        words = []
        for name, *places in text.labels:
            if name not in indices:
                raise ValueError(f"{path} line {line}: label {name!r} is none of {', '.join(indices)}; see --names")
            start, end, *segment = (place for place in places if place is not None)
            if not (isinstance(start, int) and isinstance(end, int) and segment in ([], [0])):
                raise ValueError(f"{path} line {line} has labels of pairs; give single texts and words")
            words.append(Word(start, end, indices[name]))
        if words:
            examples.append(Example((text.text if isinstance(text.text, str) else text.text[0],), 0, tuple(words)))
    if not examples:
        raise ValueError(f"{path} has no labelled word")
    return examples, list(names)


def batches(examples: Sequence[Example], size: int) -> Iterator[list[Example]]:
    """All examples in random order, those of like length together."""
    order = torch.randperm(len(examples)).tolist()
    span = 50 * size  # what is sorted together: enough to pad little, little enough that every epoch mixes anew
    lengths = [sum(map(len, example.texts)) for example in examples]
    groups = [sorted(order[start : start + span], key=lengths.__getitem__) for start in range(0, len(order), span)]
    parts = [group[start : start + size] for group in groups for start in range(0, len(group), size)]
    for part in torch.randperm(len(parts)).tolist():
        yield [examples[index] for index in parts[part]]


def load(source: str, names: Sequence[str], *, untrained: bool, words: bool = False) -> tuple[Any, Any]:
    """The model of a source with a head for these labels, and its tokenizer; prints which weights are new.

    `untrained` takes its shape alone; the labels are of `words`, or of texts.
    """
    kind = AutoModelForTokenClassification if words else AutoModelForSequenceClassification
    folder = locate(source, "", lambda _: None).folder
    settings: dict[str, Any] = {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
        "problem_type": None if words else "single_label_classification",
        "dtype": torch.float32,  # also where it is stored in half precision, as bertscope-mini is
    }
    if untrained:
        config = AutoConfig.from_pretrained(folder, **settings)
        model, new = kind.from_config(config), ["all"]
    else:
        model, report = kind.from_pretrained(
            folder,
            **settings,
            ignore_mismatched_sizes=True,  # a head for other labels is replaced
            output_loading_info=True,
        )
        new = sorted({*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])})
    print(f"start from random weights: {', '.join(new) or 'none'}")
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), AutoTokenizer.from_pretrained(folder)


def run(model: Any, tokenizer: Any, batch: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and targets, of shapes [n, labels] and [n]: one of each text, or of each token, most of which have no target.

    Texts longer than the model reads are cut.
    """
    texts = [list(column) for column in zip(*(example.texts for example in batch), strict=True)]
    encoded = tokenizer(*texts, truncation=True, padding=True, return_tensors="pt").to(model.device)
    targets = torch.tensor([example.label for example in batch])
    if batch[0].words:
        targets = torch.full(encoded["input_ids"].shape, UNLABELLED)
        for row, example in enumerate(batch):
            for word in example.words:
                # Of a word without a piece of its own, as part of another's, there is nothing to learn.
                first = next((at for at in range(word.start, word.end) if begins(encoded, row, at)), None)
                if first is not None:
                    targets[row, encoded.char_to_token(row, first)] = word.label
    return torch.as_tensor(model(**encoded).logits).flatten(0, -2), targets.flatten().to(model.device)


def begins(encoded: Any, row: int, place: int) -> bool:
    """Whether a piece of a text begins at a code point."""
    token = encoded.char_to_token(row, place)
    return token is not None and encoded.token_to_chars(row, token).start == place


@torch.inference_mode()
def accuracy(model: Any, tokenizer: Any, examples: Sequence[Example]) -> float:
    """Share of texts, or of words, whose label gets the highest logit."""
    model.eval()
    right = total = 0
    for batch in batches(examples, 64):
        logits, targets = run(model, tokenizer, batch)
        known = targets != UNLABELLED
        right += int((logits.argmax(-1) == targets)[known].sum())
        total += int(known.sum())
    return right / total


def train(model: Any, tokenizer: Any, examples: Sequence[Example], epochs: int, size: int, rate: float) -> Iterator[float]:
    """Train by AdamW, the rate rising over a tenth of the steps, then falling to 0; yield each epoch's mean loss, nats."""
    matrices, vectors = ([p for p in model.parameters() if (p.ndim > 1) is matrix] for matrix in (True, False))
    # As BERT's authors: biases and norms do not decay.
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, fused=True)
    steps = epochs * math.ceil(len(examples) / size)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    for _ in range(epochs):
        model.train()
        total = 0.0
        for batch in batches(examples, size):
            loss = cross_entropy(*run(model, tokenizer, batch))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        yield total / len(examples)


def finetune(options: argparse.Namespace) -> None:
    """Read, train, print how each epoch went, save."""
    columns = [column for column in (options.text, options.text_pair) if column]
    if bool(columns) == options.words:
        raise ValueError("give --text, the column to learn from, or --words, one of them")
    names = options.names.split(",") if options.names else [] if options.words else ["0", "1"]
    if (names and len(set(names)) < max(2, len(names))) or min(options.epochs, options.batch_size) < 1:
        raise ValueError("--names must be two or more different ones, --epochs and --batch-size at least 1")
    if options.words:
        examples, names = read_words(options.train, names)
        dev, _ = read_words(options.dev, names)
    else:
        examples, dev = (read(path, columns, options.label, names) for path in (options.train, options.dev))
    options.output.mkdir(parents=True, exist_ok=True)
    if any(options.output.iterdir()):
        raise ValueError(f"{options.output} is not empty; give a new folder")
    torch.manual_seed(options.seed)
    model, tokenizer = load(options.model, names, untrained=options.untrained, words=options.words)
    counts = Counter(label for example in dev for label in example.labels)
    [(label, count)] = counts.most_common(1)
    share = f"of {counts.total()} in {options.dev}, {count / counts.total():.1%} are {names[label]}"
    print(f"{len(examples)} texts to learn from; {share}")
    begin = time.monotonic()
    losses = train(model, tokenizer, examples, options.epochs, options.batch_size, options.learning_rate)
    for epoch, loss in enumerate(losses, start=1):
        right = accuracy(model, tokenizer, dev)
        print(f"epoch {epoch}: loss {loss:.4f}, dev accuracy {right:.4f}, {time.monotonic() - begin:.0f} s", flush=True)
    model.save_pretrained(options.output)
    tokenizer.save_pretrained(options.output)
    for path in options.output.iterdir():
        # safetensors lets only their owner read weights; a server in a container may be somebody else.
        path.chmod(stat.S_IMODE(options.output.stat().st_mode) & 0o666)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="file to learn from")
    parser.add_argument("--dev", type=Path, required=True, help="file to measure accuracy on")
    parser.add_argument("--text", help="column of the text")
    parser.add_argument("--words", action="store_true", help="learn the labels of words instead")
    parser.add_argument("--text-pair", help="column of the second text, where the task has pairs")
    parser.add_argument("--label", default="label", help="column of the label: a name or its index, from 0 (%(default)s)")
    parser.add_argument(
        "--names", help="names of the labels, in order, with commas between them (0,1; of words, all in --train)"
    )
    parser.add_argument("--output", type=Path, required=True, help="new or empty folder for the tuned model")
    parser.add_argument("--model", default=EMBEDDED, help="folder or hub id of the model to tune (%(default)s)")
    parser.add_argument(
        "--untrained", action="store_true", help="take the shape of --model alone, and start from random weights"
    )
    parser.add_argument("--epochs", type=int, default=3, help="how often to go through the texts (%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="at its highest (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="texts in a step (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of new weights, order and dropout (%(default)s)")
    options = parser.parse_args(arguments)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        finetune(options)
    except (ServiceError, bertscope.BertscopeError, OSError, ValueError) as error:
        sys.exit(f"finetune.py: {error}")


if __name__ == "__main__":
    main()
