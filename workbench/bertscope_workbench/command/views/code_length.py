"""Prints the lengths of labels' codes."""

from typing import Any

from bertscope import CodeLengths
from bertscope.questions.probes.code_length import COLUMNS
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import plural, table, titled


def print_code_lengths(screen: Console, found: CodeLengths) -> None:
    """Prints a row for each layer, and what was left out."""
    rows = table(["layer#", "kbit#", "compression#", "control kbit#", "control compression#"])
    for one in found.layers:
        rows.add_row(
            f"{one.layer}{' *' if one.layer == found.best_layer else '  '}",
            f"{one.bits / 1000:.2f}",
            f"{one.compression:.2f}",
            f"{one.control_bits / 1000:.2f}",
            f"{one.control_compression:.2f}",
        )
    heading = f"{found.provenance.model}: {plural(found.spans, 'label')} of {len(found.labels)} classes"
    screen.print(titled(f"{heading}, {found.uniform_bits / 1000:.2f} kbit by the uniform code", rows))
    screen.print(Text("* the shortest code, of the same labels; layer 0 is the embeddings"))
    if found.left_out_spans:
        screen.print(Text(f"left out: {plural(found.left_out_spans, 'word')} cut away or without a piece", style="yellow"))


def document(found: CodeLengths) -> dict[str, Any]:
    """Returns the codes as one JSON document."""
    return {
        "model": found.provenance.model,
        "weights": found.provenance.weights_digest,
        "labels": found.labels,
        "spans": found.spans,
        "left_out_spans": found.left_out_spans,
        "parts": found.parts,
        "uniform_bits": found.uniform_bits,
        "best_layer": found.best_layer,
        "layers": [dict(zip(COLUMNS, row, strict=True)) for row in found.rows()],
    }
