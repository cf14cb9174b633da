"""Show how alike the states of each two layers are, of one model or of two (linear CKA).

Example:

  bertscope cka --texts examples/sentences.txt --plot cka.png
"""

from functools import partial

from bertscope import RepresentationComparison
from bertscope.questions.representations.comparison import comparison_document
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import offered, option
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import AskedResult, OutputOptions
from bertscope_workbench.command.options.specifications import numbered
from bertscope_workbench.command.views.output import Failure, plural, print_heading, table, titled
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.representation_comparison import save_representations


def cka(
    *,
    to: ModelOptions,
    file: TextFileOptions,
    compare: str | None = option(
        "--compare MODEL", "Compare with the layers of this model, under any interventions.", field="other_model"
    ),
    layer: options.Layers = None,
    other_layer: list[int] | None = numbered("--other-layer L[,L]", "Likewise, of the second model."),
    out: OutputOptions = offered(output="Write a row for each two layers: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.CallOptions,
) -> None:
    asked = AskedResult(to, call, out, file.source())
    with asked.asking(answering("comparing")) as (client, how):
        found = client.compare_representations(asked.items, compare, layers=layer, other_layers=other_layer, **how)
    if not found.compared_texts:
        raise Failure(f"nothing to compare: {plural(found.texts, 'text')} of fewer than four words; give texts of four or more")
    asked.show(found, comparison_document, print_representations, partial(save_representations, found))


def print_representations(screen: Console, found: RepresentationComparison) -> None:
    """Prints a row for each layer of the first model, the last one on top, and a column for each of the second."""
    counts = plural(found.compared_texts, "text"), plural(found.compared_words, "word")
    print_heading(screen, found.models, *counts, truncated=found.truncated_texts)
    if found.compared_texts < found.texts:
        few = plural(found.texts - found.compared_texts, "text")
        screen.print(f"not compared, for they have fewer than four words: {few}", style="yellow")
    rows = [[layer, *values] for layer, values in zip(found.layers, found.cka(), strict=True)]
    result = table(["layer#", *(f"{layer}#shade" for layer in found.other_layers)], rows[::-1])
    screen.print(titled("linear CKA of the words' states, unbiased, within texts; layer 0 is the embeddings", result))
