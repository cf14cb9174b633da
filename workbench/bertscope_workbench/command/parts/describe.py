"""`bertscope attention describe`, `models` and `compare`: what heads attend to over many texts, of one model or several."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from bertscope import AttentionComparison, AttentionDescription, Client, Quantity
from bertscope.questions.attention.description import comparison_document, document
from bertscope.values.columns import Column
from bertscope.values.validation import TextOrPair
from rich.console import Console, Group
from rich.text import Text

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options.describing import HeadFiles, PairFileOptions, Punctuation
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.models import Models, side_by_side
from bertscope_workbench.command.options.results import AskedResult, OutputOptions, print_result
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.options.specifications import numbered
from bertscope_workbench.command.views.output import fits, plural, print_heading, shade, table, titled
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.sweep import layer_grid
from bertscope_workbench.plots.attention_statistics import save_description
from bertscope_workbench.plots.comparison import save_comparison

SHARES = ("entropy", "first_special_entropy", "distance")
"""Statistics that are no shares."""
SHOWN = ("first_special", "separators", "previous", "next", "entropy")
"""The differences in the table; --output has all of them."""
SIGNS = {"vertical": "|", "diagonal": "\\", "vertical_diagonal": "N", "block": "#", "heterogeneous": "."}
STYLES = {"|": "cyan", "\\": "yellow", "N": "magenta", "#": "green", ".": "dim"}
"""The sign and the colour of a class in the map of all heads."""


@dataclass(frozen=True)
class DescribeOptions(PairFileOptions):
    """The texts to describe, and how."""

    layer: list[int] | None = numbered("--layer L[,L]", "Layers, from 0; all unless set.")
    quantity: Quantity = option("--quantity", "The numbers to describe.", default="weights", dashed=True)
    punctuation: Punctuation = None
    head_distances: bool = flag("--distances", "Also compute how differently heads attend.")


def describe_heads(
    *,
    asked: DescribeOptions,
    picture: Literal["patterns", "statistics", "clusters"] | None = option(
        "--picture", "What --plot draws; patterns unless set. clusters implies --distances.", needs="plot"
    ),
    out: HeadFiles,
    call: options.CallOptions = offered("truncate", "model", "timeout", "json"),
    to: ModelOptions,
) -> None:
    """Describe the heads of a model over many texts: statistics and pattern classes.

    Examples:

      bertscope attention describe --texts examples/sentences.txt
      bertscope attention describe --texts examples/sentences.txt --plot classes.png --output heads.parquet
    """
    source = asked.source()
    distances = asked.head_distances or picture == "clusters"
    with to.connect(call.timeout) as client:
        found = described(client, asked, source, head_distances=distances, **call.arguments(), **to.arguments())
    written = out.write(found, lambda path, **look: save_description(found, path, picture or "patterns", **look))
    print_result(found, document, print_description, json=call.json, written=written, source=source)


def describe_models(
    *,
    models: Models,
    asked: DescribeOptions,
    out: OutputOptions = offered("output", output="Write a row for each head: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.CallOptions = offered("truncate", "timeout", "json"),
    to: ModelOptions,
) -> None:
    """Describe the heads of several models, of any shapes, each over the texts that it reads, in one table.

    Example:

      bertscope attention models --texts examples/sentences.txt --model a --model b
    """
    source, arguments = asked.source(), {**call.arguments(), **to.arguments(), "head_distances": asked.head_distances}
    with to.connect(call.timeout) as client:
        found = {model: described(client, asked, source, **arguments | {"model": model}) for model in models}
    written = out.write(side_by_side({model: each.columns() for model, each in found.items()}))
    documents = {"models": [document(each) for each in found.values()]}
    print_result(found, lambda _: documents, print_models, json=call.json, written=written, source=source)


def described(client: Client, asked: DescribeOptions, source: Source[TextOrPair], **arguments: Any) -> AttentionDescription:
    """Returns the description of a model's heads, and shows the progress."""
    with source.some_left(), answering("describing") as show:
        return client.describe_attention(
            source.items,
            layers=asked.layer,
            quantity=asked.quantity,
            punctuation=asked.punctuation or None,
            on_progress=show,
            on_rejected=source.reject,
            **arguments,
        )


def print_models(screen: Console, models: Mapping[str, AttentionDescription]) -> None:
    """Prints a column for each model: the means of statistics over all heads, and the share of each class among all maps."""
    every = models.values()
    statistics = dict.fromkeys(name for each in every for name in each.statistics)
    known = ([np.nanmean(each.mean(name)) if name in each.statistics else None for each in every] for name in statistics)
    means = [[name.replace("_", " "), *own] for name, own in zip(statistics, known, strict=True)]
    counts = [{name: int(pattern.texts.sum()) for name, pattern in each.patterns.items()} for each in every]
    classes = dict.fromkeys(name for each in counts for name in each)
    of_all = ([each.get(name, 0) / max(sum(each.values()), 1) for each in counts] for name in classes)
    shares = [[name.replace("_", " + "), *own] for name, own in zip(classes, of_all, strict=True)]
    texts = ", ".join(dict.fromkeys(plural(each.texts, "text") for each in models.values()))
    title = f"{texts}: means over all heads (entropies in nats, distance in tokens; --output has each head)"
    for heading, first, form, rows in ((title, "statistic", ".2f", means), ("classes of maps", "class", "%", shares)):
        screen.print(titled(heading, table([first, *(Column(model, model, form) for model in models)], rows)))


def print_description(screen: Console, description: AttentionDescription) -> None:
    """Prints a row for each layer: the mean of each statistic over its heads, and the share of each class of maps."""
    counts = plural(description.texts, "text"), plural(description.tokens, "token")
    print_heading(screen, description.provenance.model, *counts, truncated=description.truncated_texts)
    if description.quantity != "weights":
        screen.print(f"{description.quantity.replace('_', ' ')}, each row divided by its sum", style="dim")
    names = [*description.statistics]
    for part in _parts(screen, description, names):
        screen.print(part)
    screen.print(patterns_table(description))
    screen.print(heads_map(description))


def statistics_table(description: AttentionDescription, names: list[str]) -> Group:
    """Returns the mean of statistics over the heads of each layer, the head that is highest beside it."""
    rows = zip(description.layers, *(description.mean(name).mean(1) for name in names), strict=True)
    columns = (f"{name.replace('_', ' ')}#{'.2f' if name in SHARES else 'shade'}" for name in names)
    result = table(["layer#", *columns], rows)
    return titled("means over the heads of a layer (entropies in nats, distance in tokens; --output has each head)", result)


def patterns_table(description: AttentionDescription) -> Group:
    """Returns the share of each class among the maps of each layer."""
    counts = np.stack([pattern.texts.sum(1) for pattern in description.patterns.values()])
    shares = ((shade(f"{100 * share:.0f} %", float(share)) for share in own) for own in counts / np.maximum(counts.sum(0), 1))
    rows = zip(description.layers, *shares, strict=True)
    result = table(["layer#", *(f"{name.replace('_', ' + ')}#" for name in description.patterns)], rows)
    return titled("classes of maps", result)


def heads_map(description: AttentionDescription) -> Group:
    """Returns the class that most maps of each head are of, a row for each layer."""
    signs = [[SIGNS.get(name, name[:1]) for name in row] for row in description.majority().tolist()]
    rows = [[Text(sign, style=STYLES.get(sign, "")) for sign in row] for row in signs]
    known = ", ".join(f"{SIGNS.get(name, name[:1])} {name.replace('_', ' + ')}" for name in description.patterns)
    return titled(f"the class of most maps of each head: {known}", layer_grid(rows, description.layers))


def _parts(screen: Console, description: AttentionDescription, names: list[str]) -> list[Group]:
    """Returns the statistics in as few tables as the screen has room for."""
    for count in range(1, len(names) + 1):
        size = -(-len(names) // count)
        groups = [statistics_table(description, names[start : start + size]) for start in range(0, len(names), size)]
        if all(fits(screen, group.renderables[1]) for group in groups):  # type: ignore[arg-type]  # the table below the title
            return groups
    return groups


def compare_heads(
    *,
    other: str = argument("MODEL", "The model to compare with, or this one under changes of its heads.", field="other_model"),
    texts: PairFileOptions,
    punctuation: Punctuation = None,
    out: HeadFiles,
    call: options.CallOptions = offered("truncate", "model", "timeout", "json"),
    to: ModelOptions,
) -> None:
    """Compare the heads of two models, or of one under changes, over many texts.

    Example:

      bertscope attention compare bertscope-mini --zero 0 --texts examples/sentences.txt
    """
    asked = AskedResult(to, call, out, texts.source())
    with asked.asking(answering("comparing")) as (client, how):
        found = client.compare_attention(asked.items, other, punctuation=punctuation or None, **how)
    asked.show(found, comparison_document, print_comparison, partial(save_comparison, found))


def print_comparison(screen: Console, comparison: AttentionComparison) -> None:
    """Prints the mean cosine and divergence of each layer, the head that differs most, and the cosines of all heads."""
    counts = plural(comparison.texts, "text"), plural(comparison.tokens, "token")
    print_heading(screen, comparison.models, *counts, truncated=comparison.truncated_texts)
    screen.print(layers_table(comparison))
    screen.print(cosines_grid(comparison))


def layers_table(comparison: AttentionComparison) -> Group:
    """Returns the means over the heads of each layer."""
    names = [name for name in SHOWN if name in comparison.differences]
    cosine, divergence = comparison.cosine.mean(), comparison.divergence.mean()
    lowest = (f"{layer.min():.3f} (head {layer.argmin()})" for layer in cosine)
    means = [comparison.difference(name).mean(1) for name in names]
    rows = zip(range(comparison.layers), cosine.mean(1), lowest, divergence.mean(1), *means, strict=True)
    more = (f"{name.replace('_', ' ')}#+.3f" for name in names)
    result = table(["layer#", "cosine#.3f", "lowest#", "divergence#.4f", *more], rows)
    return titled("means over the heads of a layer; differences are the second's less the first's", result)


def cosines_grid(comparison: AttentionComparison) -> Group:
    """Returns the cosine of each head, shaded by how much it differs."""
    rows = [[shade(f"{value:.2f}", 1 - value) for value in layer] for layer in comparison.cosine.mean().tolist()]
    return titled("cosine of the maps of each head", layer_grid(rows, range(comparison.layers)))
