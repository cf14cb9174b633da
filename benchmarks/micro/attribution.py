"""Grades of the methods that tell which words made a score, by exact Shapley values of the same model and texts.

`python -m benchmarks attribution --pairs FILE ...`: minimal pairs as BLiMP has them (JSON lines with sentence_good and
sentence_bad). Pairs whose sentences differ in one word are taken, if both words are entries of the vocabulary: the word is
masked, and the logit of the good one over the bad one is explained. All methods are compared with exact Shapley values with
words masked, on the same items:

* rank: Spearman's correlation with the exact values, and of absolute values with absolute ones, which is all that a method
  without signs can have;
* top word: how often the word of the largest absolute value is the same;
* deletion, insertion: words become absent (or come back) one after another, those of the largest values first; the area under
  the score's curve, in logits, minus that of the order by exact values. Deletion is better if lower, insertion if higher;
* rows: runs of the model for a text, a gradient counted as three.

Intervals are 95 %: Student's t over the items, Wilson's of shares. A second table has the coverage of the intervals of sampled
values.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bertscope.questions.attribution.words import FEWEST_UNITS
from bertscope.values.intervals import mean_intervals, wilson_interval
from bertscope_service.analyses.correlations import spearman_values
from bertscope_service.analyses.observers.quantities import Quantity, run_quantity
from bertscope_service.analyses.observers.targets import Scale
from bertscope_service.analyses.observers.word_maps import NOWHERE
from bertscope_service.analyses.shapley import ExactShapley, SampledShapley
from bertscope_service.analyses.state_units import Unit
from bertscope_service.analyses.targets import MaskQuery, TargetQuery, TargetReader
from bertscope_service.analyses.text_units import Absent
from bertscope_service.analyses.word_attribution import (
    AttributedInput,
    AttributionPlan,
    Method,
    Settings,
    TextAttribution,
)
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.errors import InvalidArgument
from numpy.typing import NDArray

from benchmarks.lib.in_process import results
from benchmarks.lib.measure import machine

Floats = NDArray[np.float64]
MASK = "[MASK]"
PAIRS, SEEDS = (5, 10, 20, 40), 20
"""Numbers of pairs, and seeds of each, by which the coverage of intervals is measured."""
GRADIENT_ROWS = 3
"""Runs that one with its gradient counts as: backwards takes twice as long as forwards."""


@dataclass(frozen=True, slots=True)
class Item:
    """A text with a mask, the word that is right there, and the one that is not."""

    text: str
    good: str
    bad: str


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The exact values of an item, and its score with each set of words, [2^words]; bit i of a set's number is word i."""

    values: Floats
    scores: Floats


@dataclass(frozen=True, slots=True)
class Grade:
    """One line of the table: means with 95 % intervals over items, (mean, low, high); no `signed` of methods without signs."""

    method: str
    signed: tuple[float, float, float] | None
    absolute: tuple[float, float, float]
    same_top: tuple[float, float, float]
    deletion: tuple[float, float, float]
    insertion: tuple[float, float, float]
    rows: float


Graded = Callable[[Item], tuple[Floats, float]]
"""Returns a method's values of an item's words, and the rows that it ran."""


def main(arguments: Sequence[str]) -> int:
    """Grades the methods and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks attribution", description=__doc__)
    parser.add_argument("--pairs", type=Path, nargs="+", required=True, help="JSON lines with sentence_good and sentence_bad")
    parser.add_argument("--count", type=int, default=20, help="pairs of each file (20)")
    parser.add_argument("--words", type=int, default=10, help="most words of a text beside the mask, at most 12 (10)")
    parser.add_argument("--model", type=Path, default=EMBEDDED_FOLDER, help="a folder of a masked-LM (bertscope-mini)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    encoder = load_encoder(
        options.model, inspect(options.model).architecture, device=torch.device("cpu"), precision="fp32", pack=False
    )
    subject = Subject(encoder, TextTokenizer.load(options.model, 512, owner=options.model.name), options.words)
    with torch.inference_mode():
        items = [item for file in options.pairs for item in subject.some_items(read_items(file), options.count)]
        grades = list(grade(subject, items))
    if options.json:
        print(
            json.dumps({"machine": machine(), "items": len(items), "grades": list(map(dataclasses.asdict, grades))}, indent=2)
        )
    else:
        print_grades(grades)
        print()
        print_coverage(subject, items)
        print(f"{len(items)} items of {len(options.pairs)} files; {machine()}")
    return 0


def read_items(file: Path) -> Iterator[Item]:
    """Yields the pairs whose sentences differ in one word."""
    for line in file.read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        good, bad = (pair[name].removesuffix(".").split(" ") for name in ("sentence_good", "sentence_bad"))
        places = [place for place, words in enumerate(zip(good, bad, strict=False)) if words[0] != words[1]]
        if len(good) == len(bad) and len(places) == 1:
            (place,) = places
            masked = [*good[:place], MASK, *good[place + 1 :]]
            yield Item(" ".join(masked) + ".", good[place], bad[place])


class Subject:
    """The model that is explained."""

    def __init__(self, encoder: Encoder, tokenizer: TextTokenizer, words: int) -> None:
        """`words`: the most of a text, beside the mask."""
        self.encoder, self._tokenizer, self._words = encoder, tokenizer, words
        self._reader = TargetReader(tokenizer, (), several=False)

    def some_items(self, items: Iterator[Item], count: int) -> Iterator[Item]:
        """Yields the first items of which all methods can be asked."""
        for item in items:
            if count and self._fits(item):
                count -= 1
                yield item

    def _fits(self, item: Item) -> bool:
        try:
            return 2 <= len(self.planned(item, Method.OCCLUSION).units) <= self._words
        except InvalidArgument:
            return False  # one of the words has several pieces

    def planned(self, item: Item, method: Method, absent: Absent = Absent.MASK, **changes: Any) -> TextAttribution:
        """Plans the attribution of an item."""
        usual = Settings(method, absent, self._words, range(10), 0, 10, 1000, 0.01, interactions=False)
        settings = dataclasses.replace(usual, **changes)
        target = TargetQuery(MaskQuery(item.good, item.bad, None), Scale.LOGIT, "inputs[0].target")
        given = AttributedInput(item.text, None, (), target, "inputs[0]")
        plan = AttributionPlan(
            [given], Unit.WORD, settings, self._tokenizer, self._reader, truncate=False, max_row_tokens=sys.maxsize
        )
        return plan.texts[0]

    def truth(self, item: Item) -> Truth:
        """Returns the exact values of an item, and its score with each set of words."""
        text = self.planned(item, Method.SHAPLEY)
        scores = np.array(results(self.encoder, text.rows))
        return Truth(ExactShapley(len(text.units)).divide(scores).values, scores)

    def asked(self, item: Item, method: Method, absent: Absent = Absent.MASK, **changes: Any) -> tuple[Floats, float]:
        """Returns the values of an item's words by a method, and the rows that it ran."""
        text = self.planned(item, method, absent, **changes)
        while text.rows:
            text.advance(results(self.encoder, text.rows))
        rows = text.work.evaluations * (GRADIENT_ROWS if method.needs_gradients else 1)
        return text.work.shares.values, rows

    def attention(self, item: Item, quantity: Quantity | None) -> tuple[Floats, float]:
        """Returns what the mask gets from each word in the last layer by a quantity of attention, or by the mean of its heads'
        weights: sums over the pieces of words."""
        text = self.planned(item, Method.OCCLUSION)
        state = self.encoder.begin([text.units.tokenized.sequence])
        last, seen = self.encoder.shape.layers - 1, list[torch.Tensor]()

        def see(_: int, maps: torch.Tensor) -> None:
            seen.append(maps.mean(dim=1)[0].clone())

        run_quantity(quantity or Quantity.WEIGHTS, self.encoder, state, last + 1, None, [last], see)
        (row,) = np.flatnonzero(text.units.ids == self._tokenizer.mask_id)
        received = seen[0][row].double().numpy()
        there = text.units.of != NOWHERE
        return np.bincount(text.units.of[there], weights=received[there], minlength=len(text.units)).astype(np.float64), 1.0


def methods(subject: Subject) -> dict[str, Graded]:
    """Returns what is graded, by its name in the table."""
    ask, zero, deleted = subject.asked, Absent.ZERO, Absent.DELETED
    draw = np.random.default_rng(0)
    forward: dict[str, Graded] = {
        "Shapley, 40 pairs": partial(ask, method=Method.SHAPLEY, exact_units=0, pairs=range(40)),
        "Shapley, 10 pairs": partial(ask, method=Method.SHAPLEY, exact_units=0, pairs=range(10)),
        "Shapley, 5 pairs": partial(ask, method=Method.SHAPLEY, exact_units=0, pairs=range(5)),
        "Shapley, words deleted": partial(ask, method=Method.SHAPLEY, absent=deleted),
        "occlusion": partial(ask, method=Method.OCCLUSION),
        "occlusion, words deleted": partial(ask, method=Method.OCCLUSION, absent=deleted),
    }
    gradients: dict[str, Graded] = {
        "integrated gradients": partial(ask, method=Method.INTEGRATED_GRADIENTS),
        "integrated gradients, zeros": partial(ask, method=Method.INTEGRATED_GRADIENTS, absent=zero),
        "gradient": partial(ask, method=Method.GRADIENT),
        "gradient, zeros": partial(ask, method=Method.GRADIENT, absent=zero),
        "frozen": partial(ask, method=Method.FROZEN, absent=zero),
    }
    unsigned: dict[str, Graded] = {
        f"{quantity.value.replace('_', ' ')}*": partial(subject.attention, quantity=quantity)
        for quantity in Quantity
        if quantity.rolls_out
    }
    unsigned["weights of the last layer*"] = partial(subject.attention, quantity=None)

    def chance(item: Item) -> tuple[Floats, float]:
        return draw.normal(size=len(subject.planned(item, Method.OCCLUSION).units)), 0.0

    return forward | gradients | unsigned | {"random": chance}


def grade(subject: Subject, items: Sequence[Item]) -> Iterator[Grade]:
    """Yields the grade of each method."""
    truths = [subject.truth(item) for item in items]
    print("exact values: asked", file=sys.stderr)
    for name, method in methods(subject).items():
        graded = [method(item) for item in items]
        print(f"{name}: asked", file=sys.stderr)
        yield graded_as(name, [values for values, _ in graded], truths, float(np.mean([rows for _, rows in graded])))


def graded_as(name: str, found: Sequence[Floats], truths: Sequence[Truth], rows: float) -> Grade:
    """Returns the grade of a method of these values. A name with an asterisk has no signs."""
    together = list(zip(found, truths, strict=True))
    unsigned = name.endswith("*")
    absolute = [spearman(np.abs(values), np.abs(truth.values)) for values, truth in together]
    top = sum(bool(np.abs(values).argmax() == np.abs(truth.values).argmax()) for values, truth in together)
    share = wilson_interval(top, len(together))
    pairs = [(areas(values, truth.scores), areas(truth.values, truth.scores)) for values, truth in together]
    deletion, insertion = (mean([found[side] - best[side] for found, best in pairs]) for side in (0, 1))
    return Grade(
        method=name,
        signed=None if unsigned else mean([spearman(values, truth.values) for values, truth in together]),
        absolute=mean(absolute),
        same_top=(top / len(together), share.low, share.high),
        deletion=deletion,
        insertion=insertion,
        rows=rows,
    )


def spearman(first: Floats, second: Floats) -> float:
    """Returns Spearman's rank correlation; 0 if one is constant."""
    return float(spearman_values(first, second).mean())


def areas(values: Floats, scores: Floats) -> tuple[float, float]:
    """Returns the areas under the deletion and the insertion curve, in logits."""
    order, everything = np.argsort(-values, kind="stable"), len(scores) - 1
    inserted = np.concatenate([[0], np.cumsum(1 << order)])
    return trapezoid(scores[everything - inserted]), trapezoid(scores[inserted])


def trapezoid(curve: Floats) -> float:
    """Returns the area under a curve of equal steps from 0 to 1."""
    return float((curve[1:] + curve[:-1]).mean() / 2)


def mean(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns a mean and its 95 % interval."""
    array = np.array([values]).T
    intervals = mean_intervals(array.sum(axis=0), np.square(array).sum(axis=0), len(array))
    if intervals is None:
        return float(array.mean()), float("nan"), float("nan")
    return float(array.mean()), intervals[0].low, intervals[0].high


def print_coverage(subject: Subject, items: Sequence[Item]) -> None:
    """Prints how often 95 % intervals of sampled values, as the client makes them, cover the exact ones."""
    truths = [truth for item in items if len((truth := subject.truth(item)).values) >= FEWEST_UNITS]
    print("| pairs | intervals that cover the exact value, of 95 % | intervals |")
    print("|--:|--:|--:|")
    for pairs in PAIRS:
        covered = [held for truth in truths for seed in range(SEEDS) for held in covers(truth, pairs, seed)]
        print(f"| {pairs} | {np.mean(covered):.1%} | {len(covered):,} |")


def covers(truth: Truth, pairs: int, seed: int) -> list[bool]:
    """Returns whether the interval of each word's value, from so many pairs of orders, holds the exact one."""
    units = len(truth.values)
    game = SampledShapley(units, range(pairs), seed)
    sets = [int(game.present(row) @ (1 << np.arange(units))) for row in range(game.rows)]
    found = game.divide(truth.scores[sets])
    if found.sums is None or found.sums_of_squares is None:
        return []
    intervals = mean_intervals(found.sums, found.sums_of_squares, pairs, degrees=pairs - 2) or ()
    return [one.low <= value <= one.high for one, value in zip(intervals, truth.values, strict=True)]


def print_grades(grades: Sequence[Grade]) -> None:
    """Prints one table, in Markdown."""
    print("| method | rank, signed | rank, absolute | same top word | deletion (lower) | insertion (higher) | rows |")
    print("|---|---|---|---|---|---|--:|")
    for line in grades:
        cells = [line.signed, line.absolute, line.same_top, line.deletion, line.insertion]
        shown = " | ".join(map(_shown, cells))
        print(f"| {line.method} | {shown} | {line.rows:,.0f} |")


def _shown(cell: tuple[float, float, float] | None) -> str:
    """Returns a mean with its interval, which too few items have none of."""
    if cell is None:
        return ""
    middle, low, high = cell
    return f"{middle:.2f}" if np.isnan(low) else f"{middle:.2f} ({low:.2f} to {high:.2f})"
