"""Prints the answers of kept probes."""

from typing import Any

from bertscope import AppliedProbe
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import percent, plural, printable, table, titled

CONFUSIONS = 5
"""The classes taken for another that are shown."""
MAX_SPANS = 20
"""The most words that are shown if none has a label."""


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
    rows = table(["layer#", "accuracy#", "95 %", "loss#"])
    for own in found.layers:
        low, high = found.interval(own.layer)
        share = percent(found.accuracy(own.layer))
        rows.add_row(str(own.layer), share, f"{percent(low)} to {percent(high)}", f"{found.loss(own.layer):.3f}")
    screen.print(titled(f"{heading}, {found.scored_spans} of them scored", rows))
    for own in found.layers:
        confusions = found.confusions(own.layer)[:CONFUSIONS]
        if confusions:
            names = ", ".join(f"{gold} as {answer} ({count})" for gold, answer, count in confusions)
            screen.print(Text(f"layer {own.layer} takes ").append_text(printable(names)))


def _print_answers(screen: Console, found: AppliedProbe, heading: str) -> None:
    rows = table(["layer#", "text#", "word", "class", "probability#"])
    for layer, text, _, _, _, words, _, answer, share in found.rows()[:MAX_SPANS]:
        rows.add_row(str(layer), str(text), printable(words), printable(answer), percent(share))
    screen.print(titled(heading, rows))
    hidden = len(found.layers) * len(found.spans) - MAX_SPANS
    if hidden > 0:
        screen.print(f"and {plural(hidden, 'row')} more: --output FILE writes all")


def document(found: AppliedProbe) -> dict[str, Any]:
    """Returns the scores and answers as one JSON document."""
    scored = bool(found.scored_spans)
    return {
        "model": found.provenance.model,
        "weights": found.provenance.weights_digest,
        "labels": list(found.labels),
        "spans": len(found.spans),
        "scored_spans": found.scored_spans,
        "truncated_spans": found.truncated_spans,
        "empty_spans": found.empty_spans,
        "unseen_labels": dict(found.unseen_labels),
        "layers": [
            {
                "layer": own.layer,
                "accuracy": found.accuracy(own.layer) if scored else None,
                "loss": found.loss(own.layer) if scored else None,
                "confusion": own.confusion.tolist(),
            }
            for own in found.layers
        ],
    }
