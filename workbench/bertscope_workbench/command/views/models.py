"""Formats models as tables."""

from collections.abc import Iterable
from typing import Any

from bertscope import Model
from bertscope.questions.ablation.effects import heads_name
from bertscope.values.documents import document_of
from rich.console import Console
from rich.table import Table

from bertscope_workbench.command.views.output import count, fits, printable, table

COLUMNS = ("model", "architecture", "parameters#", "tokens#", "runs on", "weights#", "answers")
"""Columns of a table of models; those that do not fit the screen are left out from the right."""

NARROW_COLUMNS = 5

WIDE = 120
"""From this screen width on a table of models has more than the narrow columns."""

MAX_LABELS = 8
"""Labels named in a list of models; `show` names all."""


def models_table(models: Iterable[Model], columns: int) -> Table:
    """Returns a row for each model, with this many columns; for a model that is not ready, its state alone."""
    rows: list[list[Any]] = []
    for model in models:
        if model.state != "ready":
            rows.append([printable(model.name).append(f" ({model.state})", style="yellow"), *[None] * (columns - 1)])
            continue
        cells = (
            model.name,
            f"{model.architecture}, {model.layers} x {model.heads}",
            count(model.parameters),
            model.max_tokens,
            f"{model.runtime} {model.device}, {model.precision}",
            count(model.weight_bytes, "B"),
            ", ".join(model.capabilities),
        )
        rows.append([*cells[:columns]])
    return table(COLUMNS[:columns], rows)


def model_table(model: Model) -> Table:
    """Returns a row for each field of a model that is set."""
    texts = {
        **document_of(model),
        "capabilities": ", ".join(model.capabilities),
        "labels": ", ".join(f"{index} {label}" for index, label in enumerate(model.labels)),
        "pruned_heads": pruned(model),
        "runtime_choice": str(model.runtime_choice or ""),
        "compression": "; ".join(step.description or step.step for step in model.compression),
    }
    rows = ([field.replace("_", " "), str(value)] for field, value in texts.items() if value not in ("", None, 0))
    result = table(["", ""], rows)
    result.show_header = False
    return result


def pruned(model: Model) -> str:
    """Returns the number and names of pruned heads; empty if none is."""
    number = sum(map(len, model.pruned_heads.values()))
    return f"{number} of {model.layers * model.heads} ({heads_name(model.pruned_heads)})" if number else ""


def print_models(screen: Console, models: Iterable[Model]) -> None:
    """Prints the models as a table, with as many columns as fit the screen."""
    models = list(models)
    most = len(COLUMNS) if screen.width >= WIDE else NARROW_COLUMNS
    tables = [models_table(models, columns) for columns in range(most, 0, -1)]
    screen.print(next((each for each in tables if fits(screen, each)), tables[-1]))
    for model in models:
        name = printable(model.name)
        if model.labels:
            more = f", ... {len(model.labels) - MAX_LABELS} more" if len(model.labels) > MAX_LABELS else ""
            screen.print(name + printable(f" says {', '.join(model.labels[:MAX_LABELS])}{more}"))
        if model.pruned_heads:
            screen.print(name + printable(f" lacks heads: {pruned(model)}"))
        if model.compression:
            screen.print(name + printable(f" is compressed: {', '.join(step.step for step in model.compression)}"))
