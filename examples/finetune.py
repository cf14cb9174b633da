"""Fine-tune a model as a text classifier on a TSV file, into a folder that the server can host.

    python examples/finetune.py --train train.tsv --dev dev.tsv --text sentence --names negative,positive --output sst2
    bertscope serve --model sst2=./sst2

The first line of a file names its columns. Without --model the embedded bertscope-mini is tuned, which has no pooler: pooler
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

import torch
from bertscope_service.checkpoints.sources import locate
from bertscope_service.embedded import EMBEDDED
from bertscope_service.errors import ServiceError
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup
from transformers.utils import logging


class Example(NamedTuple):
    """A text or a pair, and the index of its label."""

    texts: tuple[str, ...]
    label: int


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


def batches(examples: Sequence[Example], size: int) -> Iterator[list[Example]]:
    """All examples in random order, those of like length together."""
    order = torch.randperm(len(examples)).tolist()
    span = 50 * size  # what is sorted together: enough to pad little, little enough that every epoch mixes anew
    lengths = [sum(map(len, example.texts)) for example in examples]
    groups = [sorted(order[start : start + span], key=lengths.__getitem__) for start in range(0, len(order), span)]
    parts = [group[start : start + size] for group in groups for start in range(0, len(group), size)]
    for part in torch.randperm(len(parts)).tolist():
        yield [examples[index] for index in parts[part]]


def load(source: str, names: Sequence[str], *, untrained: bool) -> tuple[Any, Any]:
    """The model of a source with a head for these labels, and its tokenizer; prints which weights are new.

    `untrained` takes its shape alone.
    """
    folder = locate(source, "", lambda _: None).folder
    settings: dict[str, Any] = {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
        "problem_type": "single_label_classification",
        "dtype": torch.float32,  # also where it is stored in half precision, as bertscope-mini is
    }
    if untrained:
        config = AutoConfig.from_pretrained(folder, **settings)
        model, new = AutoModelForSequenceClassification.from_config(config), ["all"]
    else:
        model, report = AutoModelForSequenceClassification.from_pretrained(
            folder,
            **settings,
            ignore_mismatched_sizes=True,  # a head for other labels is replaced
            output_loading_info=True,
        )
        new = sorted({*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])})
    print(f"start from random weights: {', '.join(new) or 'none'}")
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), AutoTokenizer.from_pretrained(folder)


def run(model: Any, tokenizer: Any, batch: Sequence[Example]) -> torch.Tensor:
    """Logits, of shape [examples, labels]; texts longer than the model reads are cut."""
    texts = [list(column) for column in zip(*(example.texts for example in batch), strict=True)]
    encoded = tokenizer(*texts, truncation=True, padding=True, return_tensors="pt").to(model.device)
    return torch.as_tensor(model(**encoded).logits)


@torch.inference_mode()
def accuracy(model: Any, tokenizer: Any, examples: Sequence[Example]) -> float:
    """Share of examples whose label gets the highest logit."""
    model.eval()
    right = 0
    for batch in batches(examples, 64):
        predicted = run(model, tokenizer, batch).argmax(-1).tolist()
        right += sum(example.label == label for example, label in zip(batch, predicted, strict=True))
    return right / len(examples)


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
            labels = torch.tensor([example.label for example in batch], device=model.device)
            loss = cross_entropy(run(model, tokenizer, batch), labels)
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
    names = options.names.split(",")
    if len(set(names)) < max(2, len(names)) or min(options.epochs, options.batch_size) < 1:
        raise ValueError("--names must be two or more different ones, --epochs and --batch-size at least 1")
    examples, dev = (read(path, columns, options.label, names) for path in (options.train, options.dev))
    options.output.mkdir(parents=True, exist_ok=True)
    if any(options.output.iterdir()):
        raise ValueError(f"{options.output} is not empty; give a new folder")
    torch.manual_seed(options.seed)
    model, tokenizer = load(options.model, names, untrained=options.untrained)
    [(label, count)] = Counter(example.label for example in dev).most_common(1)
    print(f"{len(examples)} texts to learn from; of {len(dev)} in {options.dev}, {count / len(dev):.1%} are {names[label]}")
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
    parser.add_argument("--train", type=Path, required=True, help="TSV file to learn from")
    parser.add_argument("--dev", type=Path, required=True, help="TSV file to measure accuracy on")
    parser.add_argument("--text", required=True, help="column of the text")
    parser.add_argument("--text-pair", help="column of the second text, where the task has pairs")
    parser.add_argument("--label", default="label", help="column of the label: a name or its index, from 0 (%(default)s)")
    parser.add_argument("--names", default="0,1", help="names of the labels, in order, with commas between them (%(default)s)")
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
    except (ServiceError, OSError, ValueError) as error:
        sys.exit(f"finetune.py: {error}")


if __name__ == "__main__":
    main()
