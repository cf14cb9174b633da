"""Prints the scores of probes."""

from collections.abc import Sequence
from typing import Any

from bertscope import InvalidArgument, LayerMix, ProbeResult
from bertscope.questions.probes.layer_mix import MIX_COLUMNS
from bertscope.questions.probes.probes import probe_columns
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.options.sources import MAX_REPORTED
from bertscope_workbench.command.views.output import percent, plural, printable, table, titled

CONFUSIONS = 5
"""The classes taken for another that are shown."""


def print_probe(screen: Console, found: ProbeResult, problems: Sequence[InvalidArgument]) -> None:
    """Prints a row for each layer, the most frequent confusions, and what was left out."""
    part = found.part
    rows = table(["layer#", "accuracy#", "95 %", "control#", "selectivity#", "loss#", *(["seeds"] if found.seeds[1:] else [])])
    for one in found.layers:
        cells = [
            f"{one.layer}{' *' if one.layer == found.best_layer else '  '}",
            percent(one.accuracy),
            f"{percent(one.interval.low)} to {percent(one.interval.high)}",
            percent(one.control_accuracy),
            f"{100 * one.selectivity:+.1f}",
            f"{one.loss:.3f}",
        ]
        spread = [f"{percent(one.spread[0])} to {percent(one.spread[1])}"] if found.seeds[1:] else []
        rows.add_row(*cells, *spread)
    heading = f"{found.provenance.model}: {len(found.labels)} classes"
    heading += f", {plural(found.train.spans, 'word')} to train on, scores of {plural(part.spans, 'word')} ({found.scored})"
    screen.print(titled(heading, rows))
    same = ", on which it is scored as well" if found.scored == "dev" else ""
    screen.print(Text(f"* the lowest loss on the dev words{same}; layer 0 is the embeddings"))
    screen.print(Text("always ").append_text(printable(repr(found.majority_label))).append(f": {percent(part.majority)}"))
    if found.mix is not None:
        print_mix(screen, found.mix)
    confusions = found.confusions()[:CONFUSIONS]
    if confusions:
        names = ", ".join(f"{gold} as {answer} ({count})" for gold, answer, count in confusions)
        screen.print(Text(f"layer {found.best_layer} takes ").append_text(printable(names)))
    for name in ("train", "dev", "test"):
        own = getattr(found, name)
        if own is not None and own.truncated_spans + own.empty_spans:
            counts = f"{own.truncated_spans} cut away, {own.empty_spans} without a piece"
            screen.print(Text(f"left out of {name}: {counts}", style="yellow"))
    if problems:
        screen.print(Text(f"left out: {plural(len(problems), 'sentence')}", style="yellow"))
        for problem in problems[:MAX_REPORTED]:
            screen.print(printable(f"  {problem}"), style="yellow", soft_wrap=True)


def print_mix(screen: Console, mix: LayerMix) -> None:
    """Prints the share of each layer in the mix of all, and what each adds to the mix of those before it."""
    rows = table(["layer#", "share#", "up to it#", "95 %", "gain#", "loss#"])
    for layer, share, accuracy, low, high, gain, loss in mix.rows():
        gained = "" if gain is None else f"{100 * gain:+.1f}"
        rows.add_row(str(layer), percent(share), percent(accuracy), f"{percent(low)} to {percent(high)}", gained, f"{loss:.3f}")
    screen.print(titled("one probe on the weighted mean of all layers, and on that of the layers up to each", rows))
    text = f"centre of gravity {mix.centre_of_gravity:.2f}"
    expected = mix.expected_layer
    screen.print(Text(text if expected is None else f"{text}, expected layer {expected:.2f}"))


def document(found: ProbeResult) -> dict[str, Any]:
    """Returns the scores as one JSON document."""
    return {
        "model": found.provenance.model,
        "weights": found.provenance.weights_digest,
        "labels": list(found.labels),
        "scored": found.scored,
        "spans": {name: getattr(found, name).spans for name in ("train", "dev", "test") if getattr(found, name) is not None},
        "majority": {"label": found.majority_label, "accuracy": found.part.majority},
        "best_layer": found.best_layer,
        "layers": [dict(zip(probe_columns(found), row, strict=True)) for row in found.rows()],
        "confusion": found.confusion.tolist(),
        "mix": None if found.mix is None else mix_document(found.mix),
        "seconds": found.seconds,
    }


def mix_document(mix: LayerMix) -> dict[str, Any]:
    """Returns the mix of layers as part of the document."""
    return {
        "layers": [dict(zip(MIX_COLUMNS, row, strict=True)) for row in mix.rows()],
        "shares": mix.shares.tolist(),
        "scales": list(mix.scales),
        "centre_of_gravity": mix.centre_of_gravity,
        "expected_layer": mix.expected_layer,
    }
