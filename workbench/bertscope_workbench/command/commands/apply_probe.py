"""Classify words by a probe that was trained before, and show how often it is right.

Example:

  bertscope apply-probe probe.npz examples/sentences.conllu
"""

from pathlib import Path
from typing import Any, Literal

from bertscope import AppliedProbe, load_probe
from bertscope.values.documents import fields_of
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import AskedResult, OutputOptions, SummaryOptions
from bertscope_workbench.command.options.sources import source_of
from bertscope_workbench.command.options.specifications import numbered
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.output import plural, printable, table, titled, trained_document
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.result_tables import result_table
from bertscope_workbench.readers.span_files import read_span_texts

CONFUSIONS = 5
"""The classes taken for another that are shown."""
MAX_SPANS = 20
"""The most words that are shown if none has a label."""


def apply_probe(
    *,
    to: ModelOptions,
    probe: Path = argument("PROBE", "The file that `bertscope probe --keep` wrote."),
    texts: Path = argument("TEXTS", "Texts with spans: .conllu, .tsv or .jsonl."),
    label: Literal["upos", "xpos", "deprel", "head", "depth", "arc"] = option(
        "--label", "The column of a .conllu that the probe was trained to predict.", default="upos"
    ),
    layer: list[int] | None = numbered("--layer, --layers L[,L]", "Layers of the probe; all that it has unless set."),
    any_weights: bool = flag("--any-weights", "Apply it to a model with other weights, whose states mean something else."),
    limit: int | None = option("--limit N", "Take the first N texts.", min=1),
    out: OutputOptions = offered("output", output="Write a row for each layer and span: .csv, .tsv, .jsonl, .parquet, .tex."),
    summary: SummaryOptions,
    call: options.CallOptions,
) -> None:
    kept = read_file(probe, load_probe)
    asked = AskedResult(to, call, out, source_of(texts, lambda: read_span_texts(texts, label, limit=limit)))
    with asked.asking(answering("classifying")) as (client, how):
        found = client.apply_probe(kept, asked.items, layers=layer, any_weights=any_weights, **how)
    asked.show(found, document, print_applied, written=summary.write(score_columns(found)))


def score_columns(found: AppliedProbe) -> dict[str, list[Any]]:
    """Returns the scores of each layer by name, with the interval of the accuracy; nothing if no word has a label."""
    rows = _scores(found) if found.scored_spans else []
    return {name: [row[place] for row in rows] for place, name in enumerate(("layer", "accuracy", "low", "high", "loss"))}


def _scores(found: AppliedProbe) -> list[tuple[float, ...]]:
    every = [own.layer for own in found.layers]
    return [(layer, found.accuracy(layer), *found.interval(layer), found.loss(layer)) for layer in every]


def print_applied(screen: Console, found: AppliedProbe) -> None:
    """Prints a row for each layer, the most frequent confusions, and what was left out; the answers if no word has a label."""
    heading = f"{found.provenance.model}: {plural(found.texts, 'text')}, {plural(len(found.spans), 'word')}"
    if found.scored_spans:
        _print_scores(screen, found, heading)
    else:
        _print_answers(screen, found, heading)
    if found.unseen_labels:
        names = ", ".join(f"{name} ({count})" for name, count in found.unseen_labels)
        screen.print(Text("not scored, as the probe has no such class: ", style="yellow").append_text(printable(names)))
    if found.truncated_spans + found.empty_spans:
        counts = f"{found.truncated_spans} cut away, {found.empty_spans} without a piece"
        screen.print(Text(f"left out: {counts}", style="yellow"))


def _print_scores(screen: Console, found: AppliedProbe, heading: str) -> None:
    rows = ([layer, accuracy, (low, high), loss] for layer, accuracy, low, high, loss in _scores(found))
    result = table(["layer#", "accuracy#%", "95 %#%", "loss#.3f"], rows)
    screen.print(titled(f"{heading}, {found.scored_spans} of them scored", result))
    for own in found.layers:
        confusions = found.confusions(own.layer)[:CONFUSIONS]
        if confusions:
            names = ", ".join(f"{gold} as {answer} ({count})" for gold, answer, count in confusions)
            screen.print(Text(f"layer {own.layer} takes ").append_text(printable(names)))


def _print_answers(screen: Console, found: AppliedProbe, heading: str) -> None:
    names = "layer", "text", "words", "answer", "probability"
    screen.print(titled(heading, result_table(found, names, rows=found.records()[:MAX_SPANS])))
    hidden = len(found.layers) * len(found.spans) - MAX_SPANS
    if hidden > 0:
        screen.print(f"and {plural(hidden, 'row')} more: --output FILE writes all")


def document(found: AppliedProbe) -> dict[str, Any]:
    """Returns the scores and answers as one JSON document."""
    scored = bool(found.scored_spans)
    layers = []
    for own, (layer, accuracy, low, high, loss) in zip(found.layers, _scores(found), strict=True):
        scores = {"accuracy": accuracy, "interval": (low, high), "loss": loss}
        layers.append({"layer": layer, **(scores if scored else dict.fromkeys(scores)), "confusion": own.confusion.tolist()})
    counts: dict[str, Any] = {"spans": len(found.spans)} | fields_of(found, "scored_spans", "truncated_spans", "empty_spans")
    return trained_document(found, "labels", **counts, unseen_labels=dict(found.unseen_labels), layers=layers)
