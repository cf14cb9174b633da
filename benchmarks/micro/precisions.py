"""The agreement with fp32 of other number formats, on real weights and texts: predictions, scores of texts, minimal pairs.

`python -m benchmarks precisions --texts FILE [--pairs FILE ...]`: sentences, one on each line or a treebank (.conllu), and
minimal pairs as BLiMP has them. Of each sentence 15 % of the words are masked for predictions, and all, one after the other,
for scores. TF32 and FP8, which no CPU has, are emulated: their products are computed in float32, of factors that were rounded.
FP8 (e4m3) has a scale for each output of a weight and for each token. 8-bit integers are the step `int8`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.analyses.pseudo_likelihood import ScoredInput, ScorePlan, ScoreQuery
from bertscope_service.benchmark.agreement import compare, mask_questions
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Int8
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.compress import compress
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.torch.loading import load_encoder
from numpy.typing import NDArray

from benchmarks.lib.in_process import results
from benchmarks.lib.measure import machine
from benchmarks.lib.rounding import Rounded, e4m3, tf32
from benchmarks.lib.texts import cloze_texts
from benchmarks.serving.scores import read_sentences

WORDS = range(4, 61)
"""The words of a sentence that is taken."""
MOST_LINES = 100_000
SEED = 0
TOP = 5
Format = tuple[Encoder, Callable[[], AbstractContextManager[object]]]
"""A model, and what its products are computed in."""


@dataclass(frozen=True, slots=True)
class Answers:
    """A model's log-probabilities [places, vocabulary] of masks, its scores of texts, and of the sentences of pairs, nats."""

    masks: NDArray[np.float32]
    texts: NDArray[np.float64]
    pairs: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Loss:
    """One line of the table, against fp32: shares of masks, nats, and the share of pairs that are decided otherwise.

    changes: differences of the log-probabilities of the likeliest entries by fp32. scores: of whole texts.
    """

    what: str
    top_1: float
    top_5: float
    divergence: float
    mean_change: float
    largest_change: float
    mean_score: float
    largest_score: float
    pairs: float


def main(arguments: Sequence[str]) -> int:
    """Measures each format and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks precisions", description=__doc__)
    parser.add_argument(
        "--texts", type=Path, required=True, help="a treebank (.conllu), or a file with a sentence on each line"
    )
    parser.add_argument("--pairs", type=Path, nargs="*", default=[], help="JSON lines with sentence_good and sentence_bad")
    parser.add_argument("--count", type=int, default=200, help="sentences (200)")
    parser.add_argument("--pair-count", type=int, default=25, help="pairs of each file (25)")
    parser.add_argument("--model", type=Path, default=EMBEDDED_FOLDER, help="a folder of a masked-LM (bertscope-mini)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    texts = [text for text in read_sentences(options.texts, MOST_LINES) if len(text.split()) in WORDS][: options.count]
    pairs = [sentence for file in options.pairs for sentence in read_pairs(file, options.pair_count)]
    with tempfile.TemporaryDirectory() as name, torch.inference_mode():
        losses = list(measure(options.model, Path(name), texts, pairs))
    if options.json:
        print(json.dumps({"machine": machine(), "losses": [dataclasses.asdict(loss) for loss in losses]}, indent=2))
    else:
        print_losses(losses)
        print(f"{len(texts)} sentences, {len(pairs) // 2} pairs; {machine()}")
    return 0


def read_pairs(file: Path, count: int) -> Iterator[str]:
    """Yields the sentences of the first pairs: good, bad, good, bad."""
    for line in file.read_text(encoding="utf-8").splitlines()[:count]:
        pair = json.loads(line)
        yield from (pair["sentence_good"], pair["sentence_bad"])


def measure(folder: Path, root: Path, texts: Sequence[str], pairs: Sequence[str]) -> Iterator[Loss]:
    """Yields the loss of each format."""
    tokenizer = TextTokenizer.load(folder, 512, owner=folder.name)
    expected: Answers | None = None
    for what, (encoder, products) in formats(folder, root):
        with products():
            found = answers(encoder, tokenizer, texts, pairs)
        print(f"{what}: asked", file=sys.stderr)
        if expected is None:
            expected = found
        else:
            yield loss(what, expected, found)


def formats(folder: Path, root: Path) -> Iterator[tuple[str, Format]]:
    """Yields the model in each format, fp32 first."""
    kind, cpu = inspect(folder).architecture, torch.device("cpu")
    whole = load_encoder(folder, kind, device=cpu, precision="fp32", pack=False)
    yield "fp32", (whole, nullcontext)
    yield "TF32", (whole, lambda: Rounded(tf32, everywhere=True))
    for precision in ("bf16", "fp16"):
        yield precision, (load_encoder(folder, kind, device=cpu, precision=precision), nullcontext)
    yield "FP8, layers", (whole, lambda: Rounded(e4m3, everywhere=False, largest=whole.shape.vocabulary_size))
    yield "FP8, layers and output", (whole, lambda: Rounded(e4m3, everywhere=False))
    source = inspect(folder)
    compress(source, (Int8(),), root / "int8", lambda _: None, source.digest(lambda _: None))
    yield "int8", (load_encoder(root / "int8", kind, device=cpu, precision="fp32"), nullcontext)


def answers(encoder: Encoder, tokenizer: TextTokenizer, texts: Sequence[str], pairs: Sequence[str]) -> Answers:
    """Asks a model everything."""
    questions = mask_questions([*cloze_texts(), *texts], [tokenizer], SEED)
    masks = results(encoder, [(question.sequences[0], question.observers[0]) for question in questions])
    return Answers(np.concatenate(masks), scores(encoder, tokenizer, texts), scores(encoder, tokenizer, pairs))


def scores(encoder: Encoder, tokenizer: TextTokenizer, texts: Sequence[str]) -> NDArray[np.float64]:
    """Returns the pseudo-log-likelihood of each text, nats."""
    if not texts:
        return np.zeros(0)
    inputs = tuple(ScoredInput(text, None, (), 0, None, f"texts[{index}]") for index, text in enumerate(texts))
    plan = ScorePlan(ScoreQuery(inputs, Scoring.WITHIN_WORD, False, 100_000_000), tokenizer)
    seen = results(encoder, list(zip(plan.masked.sequences, plan.masked.observers, strict=True)))
    return np.array([score.log_likelihood for score in plan.answer(seen)])


def loss(what: str, expected: Answers, found: Answers) -> Loss:
    """Compares a format's answers with those of fp32."""
    wanted, given = expected.masks.astype(np.float64), found.masks.astype(np.float64)
    top_1, top_5, divergence = compare(wanted, given, TOP).mean(axis=0).tolist()
    likeliest = np.argpartition(-wanted, TOP - 1, axis=1)[:, :TOP]
    changes = np.abs(np.take_along_axis(given - wanted, likeliest, axis=1))
    texts = np.abs(found.texts - expected.texts)
    decided = [(scored[::2] > scored[1::2]) for scored in (expected.pairs, found.pairs)]
    pairs = float((decided[0] != decided[1]).mean()) if len(expected.pairs) else float("nan")
    return Loss(
        what,
        top_1,
        top_5,
        divergence,
        mean_change=float(changes.mean()),
        largest_change=float(changes.max()),
        mean_score=float(texts.mean()),
        largest_score=float(texts.max()),
        pairs=pairs,
    )


def print_losses(losses: Sequence[Loss]) -> None:
    """Prints one table, in Markdown."""
    print("| against fp32 | same likeliest | 5 likeliest shared | KL, nats | log-probability | sentence | pairs otherwise |")
    print("|---|---|---|---|---|---|---|")
    for line in losses:
        shares = f"{line.top_1:.2%} | {line.top_5:.2%} | {line.divergence:.1e}"
        changes = f"{line.mean_change:.2g} (up to {line.largest_change:.2g})"
        scored = f"{line.mean_score:.2g} (up to {line.largest_score:.2g})"
        pairs = "" if np.isnan(line.pairs) else f"{line.pairs:.2%}"
        print(f"| {line.what} | {shares} | {changes} | {scored} | {pairs} |")
