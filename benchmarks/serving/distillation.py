"""Measures what distillation brings back: the embedded model cut to some layers, untrained beside trained in the same run, and
how long others wait meanwhile.

`python -m benchmarks distill --texts FILE`: a tenth of the texts, at most 500, chooses the weights, as many are scored on,
which nothing is chosen by, and all others are trained on. A caller asks a cloze question at a time, first alone and then
beside the training. `--recipe NAME` trains as a published system did instead, of those in the Primer's Table 1 (Rogers,
Kovaleva and Rumshisky 2020) whose training exists here, `--recipe all` as each in turn: what came back of what was lost.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import numpy as np
from bertscope.questions.compression.steps import Step
from bertscope_service.embedded import EMBEDDED_FOLDER
from rich.console import Console
from rich.table import Table

from benchmarks.lib.measure import machine
from benchmarks.lib.serving import serving

ALONE_SECONDS = 20
PAUSE_SECONDS = 0.1
QUESTION = "Paris is the capital of [MASK]."
Options = dict[str, float | str]
RECIPES: dict[str, tuple[Step | None, Options]] = {
    "DistilBERT": (None, {"soft": 5.0, "hard": 2.0, "states": 1.0}),
    "BERT-PKD": (None, {"soft": 1.0, "hard": 1.0, "states": 10.0, "state_loss": "mse"}),
    "TinyBERT": (None, {"soft": 1.0, "states": 1.0, "state_loss": "mse", "attention": 1.0}),
    "PD": (None, {"soft": 1.0, "states": 0.0}),
    "no teacher": (None, {"soft": 0.0, "hard": 1.0, "states": 0.0}),
    "Q8BERT": (bertscope.int8(), {"soft": 0.0, "hard": 1.0, "states": 0.0}),
    "magnitude": (bertscope.magnitude(0.6), {"soft": 0.0, "hard": 1.0, "states": 0.0}),
    "defaults": (None, {}),
}
"""The step of a system that is not cut to --layers, and the parts of its loss. DistilBERT's weights are those of its published
script. PKD compared normalised states of the first token, here all tokens' states. TinyBERT trained on attention and states
first, then on predictions, here on all at once. PD (Turc et al. 2019) pretrained its student before predictions alone."""


def main(arguments: list[str]) -> int:
    """Runs the distillation and prints what came of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks distill", description=__doc__)
    parser.add_argument("--texts", type=Path, required=True, help="a file of texts (.txt)")
    parser.add_argument("--limit", type=int, help="the first so many (all)")
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 2, 4], help="the layers to keep (0 2 4)")
    parser.add_argument("--recipe", action="append", choices=[*RECIPES, "all"], help="train as this system; repeatable")
    parser.add_argument("--int8", action="store_true", help="train with the rounding of 8-bit integers")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the texts (1)")
    parser.add_argument("--learning-rate", type=float, help="AdamW's (the server's default)")
    parser.add_argument("--threads", type=int, help="the server's (the cores)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    options = parser.parse_args(arguments)
    texts = workbench.read_texts(options.texts)[: options.limit]
    if len(texts) < 50:
        parser.error(f"--texts has {len(texts)} texts; give 50 or more")
    threads = [] if options.threads is None else ["--threads", str(options.threads)]
    with (
        serving("--model", f"mini={EMBEDDED_FOLDER}", "--runtime", "torch", *threads) as server,
        bertscope.Client(server.target) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        if options.recipe:
            trained = {name: timed(client, texts, Path(folder) / name, options, name) for name in recipes(options.recipe)}
            show_recipes(trained, as_json=options.json)
            return 0
        with waits(server.target) as alone:
            time.sleep(ALONE_SECONDS)
        with waits(server.target) as beside:
            found, minutes = timed(client, texts, Path(folder) / "small", options)
    if options.json:
        print(json.dumps({"machine": machine(), **summary(found, minutes)}, indent=2))
        return 0
    show(found, minutes, alone, beside)
    return 0


def recipes(names: Sequence[str]) -> Sequence[str]:
    """Returns the names of the recipes to train by."""
    return [*RECIPES] if "all" in names else names


def summary(found: bertscope.DistilledModel, minutes: float) -> dict[str, object]:
    """Returns what a training brought, for JSON."""
    scores = {name: dataclasses.asdict(getattr(found, name)) for name in ("teacher", "untrained", "student")}
    shares = {name: dataclasses.asdict(one) for name, one in found.recoveries.items()}
    return {"minutes": minutes, "scores": scores, "recoveries": shares}


def timed(
    client: bertscope.Client, texts: Sequence[str], folder: Path, options: argparse.Namespace, recipe: str = "defaults"
) -> tuple[bertscope.DistilledModel, float]:
    """Returns the distilled model, and the minutes that it took."""
    began = time.monotonic()
    found = distilled(client, texts, folder, options, recipe)
    return found, (time.monotonic() - began) / 60


def distilled(
    client: bertscope.Client, texts: Sequence[str], folder: Path, options: argparse.Namespace, recipe: str
) -> bertscope.DistilledModel:
    """Returns the model that is distilled as a system was."""
    step, parts = RECIPES[recipe]

    def tell(progress: bertscope.DistillationProgress) -> None:
        if progress.stage == "training":
            line = f"{progress.done} of {progress.total}, loss {progress.loss:.3f}, best on dev {progress.best_dev_loss:.3f}"
            print(line, file=sys.stderr, flush=True)

    rounding = [bertscope.int8()] if options.int8 else []
    found = client.distill_model(
        "small",
        texts,
        folder=str(folder),
        steps=[step or bertscope.keep_layers(options.layers), *rounding],
        model="mini",
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        truncate=True,
        on_progress=tell,
        **parts,  # type: ignore[arg-type]
    )
    client.unload_model("small")
    return found


@contextlib.contextmanager
def waits(target: str) -> Iterator[list[float]]:
    """Asks a question at a time while the block runs; the list gets the milliseconds of each answer."""
    found, ended = list[float](), threading.Event()

    def ask() -> None:
        with bertscope.Client(target) as client:
            while not ended.wait(PAUSE_SECONDS):
                began = time.monotonic()
                client.fill_mask(QUESTION, model="mini")
                found.append(1000 * (time.monotonic() - began))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield found
    finally:
        ended.set()
        asking.join()


def show(found: bertscope.DistilledModel, minutes: float, alone: Sequence[float], beside: Sequence[float]) -> None:
    """Prints the tables."""
    console = Console()
    trained = f"{found.train.texts} texts of {found.train.tokens} tokens"
    table = Table(title=f"{found.test.texts} test texts; trained on {trained}, {minutes:.1f} minutes")
    for heading in ("model", "accuracy", "loss, nats", "agrees", "KL, nats"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for name, *numbers in (row.values() for row in found.records()):
        table.add_row(name, *(f"{number:.4f}" for number in numbers))
    console.print(table)
    for name, one in found.recoveries.items():
        ends = "no interval" if one.interval is None else f"95 % interval {one.interval.low:.3f} to {one.interval.high:.3f}"
        goal = " (goal: at least .5)" if name == "accuracy" else ""
        console.print(f"{name}: {one.share:.3f} of what was lost came back, {ends}{goal}")
    for when, times in (("alone", alone), ("beside the training", beside)):
        p50, p95 = np.percentile(times, [50, 95])
        longest = f"longest {max(times):.0f} ms of {len(times)}"
        console.print(f"a cloze question {when}: median {p50:.1f} ms, p95 {p95:.1f} ms, {longest}")


def show_recipes(trained: dict[str, tuple[bertscope.DistilledModel, float]], *, as_json: bool) -> None:
    """Prints a row for each recipe."""
    if as_json:
        found = {name: summary(model, minutes) for name, (model, minutes) in trained.items()}
        print(json.dumps({"machine": machine(), "recipes": found}, indent=2))
        return
    (first, _), *_ = trained.values()
    teacher = f"the teacher's accuracy {first.teacher.accuracy:.3f}, its loss {first.teacher.loss:.2f} nats"
    parts = f"trained on {first.train.texts} texts of {first.train.tokens} tokens"
    table = Table(title=f"{first.test.texts} test texts: {teacher}; {parts}; 95 % intervals")
    for heading in ("trained as", "minutes", "accuracy", "came back", "loss, nats", "came back"):
        table.add_column(heading, justify="left" if heading == "trained as" else "right")
    for name, (model, minutes) in trained.items():
        cells = [
            cell
            for metric in ("accuracy", "loss")
            for cell in (
                f"{getattr(model.untrained, metric):.3f} to {getattr(model.student, metric):.3f}",
                came_back(model.recoveries.get(metric)),
            )
        ]
        table.add_row(name, f"{minutes:.1f}", *cells)
    Console().print(table)


def came_back(share: bertscope.Recovery | None) -> str:
    """Returns the share that came back, with its interval, in words."""
    if share is None:
        return "nothing was lost"
    ends = "" if share.interval is None else f" [{share.interval.low:.3f}, {share.interval.high:.3f}]"
    return f"{share.share:.3f}{ends}"
