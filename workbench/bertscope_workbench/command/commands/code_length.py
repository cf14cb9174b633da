"""Measure how many bits the labels of words take, given each layer's states: a short code is a label that is easy to read.

Minimum description length by online coding (Voita and Titov 2020).

Example:

  bertscope code-length examples/sentences.conllu --layers 0,2,6 --plot code-length.png
"""

from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from bertscope_workbench.analyses.code_length import CodeLengths, measure_code_length
from bertscope_workbench.command import options
from bertscope_workbench.command.commands.probe import read_probe_part
from bertscope_workbench.command.groups import argument, offered, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import AskedResult, OutputOptions
from bertscope_workbench.command.views.output import plural, titled, trained_document
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.result_tables import result_table
from bertscope_workbench.plots.code_length import save_code_length


def code_length(
    *,
    to: ModelOptions,
    file: Path = argument("FILE", "Texts whose labels are coded: .conllu, .tsv, .jsonl."),
    dev: Path | None = option("--dev FILE", "Texts that end training; a tenth of the others unless set."),
    label: Literal["upos", "xpos", "deprel", "head", "depth"] = option(
        "--label", "The column that is coded, or the head's place, or the depth in the tree.", default="upos"
    ),
    layer: options.StateLayers = None,
    pooling: options.WordPooling = "mean",
    l2: float | None = option("--l2 X", "Penalty of weights, 1 / C; 1 unless set."),
    seed: int = option("--seed", "Shuffles the sentences.", default=0, min=0),
    limit: options.LimitOfEach = None,
    out: OutputOptions = offered(output="Write a row for each layer: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.LongCallOptions,
) -> None:
    texts, held = (read_probe_part(path, label, limit) for path in (file, dev))
    asked = AskedResult[Any](to, call, out)
    with asked.asking(answering("coding")) as (client, how):
        found = measure_code_length(client, texts, dev=held, layers=layer, pooling=pooling, l2=l2, seed=seed, **how)
    asked.show(found, document, print_code_lengths, partial(save_code_length, found))


def print_code_lengths(screen: Console, found: CodeLengths) -> None:
    """Prints a row for each layer, and what was left out."""
    result = result_table(found, best=found.best_layer)
    heading = f"{found.provenance.model}: {plural(found.spans, 'label')} of {len(found.labels)} classes"
    screen.print(titled(f"{heading}, {found.uniform_bits:,.0f} bits by the uniform code", result))
    screen.print(Text("* the shortest code, of the same labels; layer 0 is the embeddings"))
    if found.left_out_spans:
        screen.print(Text(f"left out: {plural(found.left_out_spans, 'word')} cut away or without a piece", style="yellow"))


def document(found: CodeLengths) -> dict[str, Any]:
    """Returns the codes as one JSON document."""
    return trained_document(found, "labels", "spans", "left_out_spans", "parts", "uniform_bits", "best_layer")
