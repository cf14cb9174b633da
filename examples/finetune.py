"""Fine-tune a model into a folder that the server can host: for labels or values of texts, labels of words, or answers.

Run it in the project's folder, where `examples` is:

    python -m examples.finetune --train train.tsv --dev dev.tsv --text sentence --names negative,positive --output sst2
    python -m examples.finetune --task values --train sts.tsv --dev dev.tsv --text one --text-pair other --label score \\
        --output sts
    python -m examples.finetune --task label-sets --train train.tsv --dev dev.tsv --text sentence --output topics
    python -m examples.finetune --task words --train train.conllu --dev dev.conllu --output upos
    python -m examples.finetune --task answers --train train.jsonl --dev dev.jsonl --output qa
    bertscope serve --model sst2=./sst2

The first line of a file of texts names its columns; a set of labels has "|" between them. A file of words is a treebank
(.conllu, parts of speech), .tsv of words and labels with a blank line between sentences (so may be named entities, as "B-PER"),
or .jsonl of spans; the first piece of a word learns its label. A file of answers has the columns question, passage and answer.
Without --model the embedded bertscope-mini is tuned, which has no pooler: pooler and head start from random weights. The
weights after the last epoch are saved, not those of the best one on --dev, so that no epoch is chosen by texts that something
may be measured on later.
"""

import argparse
import math
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bertscope
import torch
from bertscope_service.checkpoints.sources import locate
from bertscope_service.embedded import EMBEDDED
from bertscope_service.errors import ServiceError
from transformers import AutoConfig, AutoTokenizer, get_linear_schedule_with_warmup
from transformers.utils import logging

from examples.finetune_tasks import TASKS, Task, in_batches


def load(folder: Path, task: Task, *, untrained: bool) -> tuple[Any, Any]:
    """Returns a model with the head of a task, and its tokenizer; prints which weights are new. `untrained` takes its shape
    alone."""
    settings = {
        "problem_type": None,
        **task.settings,
        "dtype": torch.float32,  # also where it is stored in half precision, as bertscope-mini is
    }
    if untrained:
        model, new = task.kind.from_config(AutoConfig.from_pretrained(folder, **settings)), ["all"]
    else:
        model, report = task.kind.from_pretrained(
            folder,
            **settings,
            ignore_mismatched_sizes=True,  # a head for other labels is replaced
            output_loading_info=True,
        )
        new = sorted({*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])})
    print(f"start from random weights: {', '.join(new) or 'none'}")
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), AutoTokenizer.from_pretrained(folder)


def train(model: Any, task: Task, epochs: int, size: int, rate: float) -> Iterator[float]:
    """Train by AdamW, the rate rising over a tenth of the steps, then falling to 0; yield each epoch's mean loss."""
    matrices, vectors = ([p for p in model.parameters() if (p.ndim > 1) is matrix] for matrix in (True, False))
    # As BERT's authors: biases and norms do not decay.
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, fused=True)
    steps = epochs * math.ceil(len(task.train) / size)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    for _ in range(epochs):
        model.train()
        total = 0.0
        for places in in_batches([task.length(example) for example in task.train], size):
            batch = [task.train[place] for place in places]
            loss = task.loss(batch)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        yield total / len(task.train)


@torch.inference_mode()
def scores(model: Any, task: Task) -> str:
    """Returns the scores on the development file, in words."""
    model.eval()
    return ", ".join(f"dev {name} {score:.4f}" for name, score in task.scores().items())


def finetune(options: argparse.Namespace) -> None:
    """Read, train, print how each epoch went, save."""
    if bool(options.text) != (options.task in ("labels", "label-sets", "values")):
        raise ValueError(f"--task {options.task} {'takes no' if options.text else 'needs'} --text, the column to learn from")
    if options.names and options.task in ("values", "answers"):
        raise ValueError(f"--task {options.task} takes no --names: nothing has a label")
    if min(options.epochs, options.batch_size) < 1:
        raise ValueError("--epochs and --batch-size must be at least 1")
    task = TASKS[options.task](options)
    folder = locate(options.model, "", lambda _: None).folder
    options.output.mkdir(parents=True, exist_ok=True)
    if any(options.output.iterdir()):
        raise ValueError(f"{options.output} is not empty; give a new folder")
    torch.manual_seed(options.seed)
    model, tokenizer = load(folder, task, untrained=options.untrained)
    task.prepare(model, tokenizer, folder)
    print(f"{len(task.train)} texts to learn from; {task.summary()}")
    begin = time.monotonic()
    for epoch, loss in enumerate(train(model, task, options.epochs, options.batch_size, options.learning_rate), start=1):
        print(f"epoch {epoch}: loss {loss:.4f}, {scores(model, task)}, {time.monotonic() - begin:.0f} s", flush=True)
    model.save_pretrained(options.output)
    tokenizer.save_pretrained(options.output)
    for path in options.output.iterdir():
        # safetensors lets only their owner read weights; a server in a container may be somebody else.
        path.chmod(stat.S_IMODE(options.output.stat().st_mode) & 0o666)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="examples.finetune", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=TASKS, default="labels", help="what to learn (%(default)s)")
    parser.add_argument("--train", type=Path, required=True, help="file to learn from")
    parser.add_argument("--dev", type=Path, required=True, help="file to measure on")
    parser.add_argument("--text", help="column of the text, where the task has texts")
    parser.add_argument("--text-pair", help="column of the second text, where the task has pairs")
    parser.add_argument(
        "--label",
        default="label",
        help="column of the label (a name or its index, from 0) or the value (%(default)s)",
    )
    parser.add_argument(
        "--names", help="names of the labels, in order, with commas between them (0,1; of words and label sets, all in --train)"
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
