"""Shows probes of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertscope import InvalidArgument, RegressionResult
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.options.sources import print_problems
from bertscope_workbench.command.views.output import plural, print_left_out, titled, trained_document
from bertscope_workbench.command.views.result_tables import layer_table


def print_regression(screen: Console, found: RegressionResult, problems: Sequence[InvalidArgument]) -> None:
    """Prints a row for each layer, and what was left out."""
    heading = f"{found.provenance.model}: numbers of {plural(found.train.spans, 'word')} to train on"
    heading += f", scores of {plural(found.part.spans, 'word')} ({found.scored})"
    screen.print(titled(heading, layer_table(found)))
    same = ", on which it is scored as well" if found.scored == "dev" else ""
    screen.print(Text(f"* the least error on the dev words{same}; layer 0 is the embeddings"))
    screen.print(Text(f"error: the root of the mean square; always the training words' mean: {found.mean_rmse:.4g}"))
    print_left_out(screen, found)
    print_problems(screen, problems)


def regression_document(found: RegressionResult) -> dict[str, Any]:
    """Returns the scores as one JSON document."""
    return trained_document(found, "scored", "mean_rmse", "best_layer", "seconds", parts="spans")
