"""Train a probe on each layer, beside a control task, to see where a label of words can be read out.

Examples:

  bertscope probe examples/sentences.conllu
  bertscope probe examples/sentences.conllu --label deprel --keep probe.npz
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from bertscope import Client, InvalidArgument, KeptProbe, LayerMix, ProbeResult, RegressionResult
from bertscope.values.documents import fields_of
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import modes
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.looks import LOOKS
from bertscope_workbench.command.options.models import Models, side_by_side
from bertscope_workbench.command.options.results import AskedResult, OutputOptions, print_result
from bertscope_workbench.command.options.sources import print_problems
from bertscope_workbench.command.views.files import kept, read_file, require_output
from bertscope_workbench.command.views.output import (
    percent,
    plural,
    print_left_out,
    printable,
    table,
    titled,
    trained_document,
)
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.command.views.result_tables import print_layers, result_table
from bertscope_workbench.plots.probes import save_probe, save_regression_probe
from bertscope_workbench.readers.span_files import ValuedTexts, read_probe_texts, read_valued_texts
from bertscope_workbench.readers.treebanks import ConlluLabel, ProbeTexts

CONFUSIONS = 5
"""The classes taken for another that are shown."""
ROWS = "Write a row for each layer: .csv, .tsv, .jsonl, .parquet, .tex."

T = TypeVar("T")

app = modes("probe", __doc__)


@dataclass(frozen=True)
class ProbeOptions:
    """The words to probe, and the probes."""

    sent: ClassVar[Sequence[str]] = ("pooling", "l2", "max_epochs", "ending", "hidden_units", "seeds", "seed")
    """The options that are arguments of the client's methods, by their names."""

    file: Path = argument("TRAIN", "Sentences to train on: .conllu, .tsv or .jsonl.")
    dev: Path | None = option("--dev FILE", "Sentences that end training; a tenth of TRAIN unless set.")
    test: Path | None = option("--test FILE", "Sentences that scores are of; those of --dev unless set.")
    label: Literal["upos", "xpos", "deprel", "head", "depth", "index", "arc"] = option(
        "--label",
        "The column to predict; the head's place; the depth; the word's number; or arc, deprel of a pair.",
        default="upos",
    )
    values: bool = flag(
        "--values", 'Predict numbers by least squares: labels such as depth and index, or "value" of .jsonl.', without="mix"
    )
    layer: options.StateLayers = None
    pooling: options.WordPooling = "mean"
    l2: float | None = option("--l2 X", "Penalty of weights, 1 / C; 1 unless set.")
    max_epochs: int | None = option("--epochs", "Most passes over TRAIN; 40 unless set.", min=1)
    ending: Literal["dev", "minimum"] = option(
        "--ending", "End by the dev loss, or at the minimum of the training loss, as scikit-learn does.", default="dev"
    )
    hidden_units: int = option("--hidden-units N", "Units of a hidden layer; 0 for linear probes.", default=0, min=0)
    mix: bool = flag("--mix", "Also train probes on weighted means of layers, to see which layers they take.")
    seeds: int = option("--seeds", "Probes of each layer that differ in their seed.", default=1, min=1)
    seed: int = option("--seed", "The first seed.", default=0, min=0)
    limit: options.LimitOfEach = None

    def parts(self) -> list[Any]:
        """Returns the sentences to train on, those that end training and those that scores are of."""
        read = _read_values if self.values else read_probe_part
        return [read(path, self.label, self.limit) for path in (self.file, self.dev, self.test)]

    def train(self, client: Client, parts: Sequence[Any], **arguments: Any) -> Any:
        """Trains the probes of one model."""
        train: Any = client.train_regression_probe if self.values else partial(client.train_probe, mix=self.mix)
        return train(
            parts[0],
            dev=parts[1],
            test=parts[2],
            layers=self.layer,
            **{name: getattr(self, name) for name in self.sent},
            **arguments,
        )


@app.command("layers", help=__doc__)
def layers(
    *,
    asked: ProbeOptions,
    keep: Path | None = option("--keep FILE", "Keep the probes for `bertscope apply-probe`: a file, .npz."),
    out: OutputOptions = offered("output", *LOOKS, output=ROWS),
    call: options.LongCallOptions,
    to: ModelOptions,
) -> None:
    require_output(keep, (".npz",), "--keep")
    parts = asked.parts()
    run = AskedResult[Any](to, call, out)
    with run.asking(training()) as (client, how):
        found = asked.train(client, parts, weights=keep is not None, **how)
    shown_by: tuple[Any, ...] = (save_probe, document, print_probe)
    if asked.values:
        shown_by = (save_regression_probe, regression_document, print_regression)
    save, shown, view = shown_by
    files = [] if keep is None else [kept(KeptProbe.of(found).save, keep)]
    problems = [problem for part in parts if part for problem in part.problems]
    run.show(found, shown, partial(view, problems=problems), partial(save, found), written=files)


@app.command("models")
def models(
    *,
    models: Models,
    asked: ProbeOptions,
    out: OutputOptions = offered("output", output=ROWS),
    call: options.LongCallOptions = offered("truncate", "timeout", "json"),
    to: ModelOptions,
) -> None:
    """Train probes on the layers of several models, in one table.

    Example:

      bertscope probe models examples/sentences.conllu --model a --model b
    """
    parts = asked.parts()
    with to.connect(call.timeout) as client, training() as show:
        more = to.arguments() | call.arguments()
        every = [asked.train(client, parts, on_progress=show, **more | {"model": model}) for model in models]
    written = out.write(side_by_side({each.provenance.model: each.columns() for each in every}))
    shown = regression_document if asked.values else document
    documents = {"models": [shown(each) for each in every]}
    print_result(every, lambda _: documents, print_models, json=call.json, written=written)


def read_probe_part(path: Path | None, label: ConlluLabel, limit: int | None) -> ProbeTexts:
    """Returns the texts of a file, none without one. Raises Failure for a file that can't be read."""
    return ProbeTexts() if path is None else read_file(path, lambda path: read_probe_texts(path, label, limit=limit))


def _read_values(path: Path | None, label: ConlluLabel, limit: int | None) -> ValuedTexts:
    """Returns the texts of a file whose spans have numbers, none without one. Raises Failure for a file that can't be read."""
    return ValuedTexts() if path is None else read_file(path, lambda path: read_valued_texts(path, label, limit=limit))


def print_probe(screen: Console, found: ProbeResult, problems: Sequence[InvalidArgument]) -> None:
    """Prints a row for each layer, the most frequent confusions, and what was left out."""
    part = found.part
    heading = f"{len(found.labels)} classes"
    heading += f", {plural(found.train.spans, 'word')} to train on, scores of {plural(part.spans, 'word')} ({found.scored})"
    print_layers(screen, found, heading, "the lowest loss on the dev words")
    screen.print(Text("always ").append_text(printable(repr(found.majority_label))).append(f": {percent(part.majority)}"))
    if found.mix is not None:
        print_mix(screen, found.mix)
    confusions = found.confusions()[:CONFUSIONS]
    if confusions:
        names = ", ".join(f"{gold} as {answer} ({count})" for gold, answer, count in confusions)
        screen.print(Text(f"layer {found.best_layer} takes ").append_text(printable(names)))
    print_left_out(screen, found)
    print_problems(screen, problems)


def print_regression(screen: Console, found: RegressionResult, problems: Sequence[InvalidArgument]) -> None:
    """Prints a row for each layer of probes of numbers, and what was left out."""
    heading = f"numbers of {plural(found.train.spans, 'word')} to train on"
    heading += f", scores of {plural(found.part.spans, 'word')} ({found.scored})"
    print_layers(screen, found, heading, "the least error on the dev words")
    screen.print(Text(f"error: the root of the mean square; always the training words' mean: {found.mean_rmse:.4g}"))
    print_left_out(screen, found)
    print_problems(screen, problems)


def print_models(screen: Console, models: Sequence[Any]) -> None:
    """Prints the best layer of each model, and how it does there."""
    best = ((found, row) for found in models for row in found.records() if row["layer"] == found.best_layer)
    rows = (
        [found.provenance.model, layer, share, (low, high), *others[:2]]
        for found, row in best
        for layer, share, low, high, *others in [row.values()]
    )
    result = table(["model", "best layer#", "score#.3f", "95 %#.3f", "control#.3f", "selectivity#+.3f"], rows)
    screen.print(titled("the layer with the lowest loss on the dev words: accuracy, or R squared of numbers", result))


def print_mix(screen: Console, mix: LayerMix) -> None:
    """Prints the share of each layer in the mix of all, and what each adds to the mix of those before it."""
    title = "one probe on the weighted mean of all layers, and on that of the layers up to each"
    screen.print(titled(title, result_table(mix)))
    text = f"centre of gravity {mix.centre_of_gravity:.2f}"
    expected = mix.expected_layer
    screen.print(Text(text if expected is None else f"{text}, expected layer {expected:.2f}"))


def regression_document(found: RegressionResult) -> dict[str, Any]:
    """Returns the scores of probes of numbers as one JSON document."""
    return trained_document(found, "scored", "mean_rmse", "best_layer", "seconds", parts="spans")


def document(found: ProbeResult) -> dict[str, Any]:
    """Returns the scores as one JSON document."""
    names = "labels", "scored", "best_layer", "confusion", "seconds"
    majority = {"label": found.majority_label, "accuracy": found.part.majority}
    mix, of_mix = found.mix, ("shares", "scales", "centre_of_gravity", "expected_layer")
    mixed = None if mix is None else {"layers": mix.records()} | fields_of(mix, *of_mix)
    return trained_document(found, *names, parts="spans", majority=majority, mix=mixed)
