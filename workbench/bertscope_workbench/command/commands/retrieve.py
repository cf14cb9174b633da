"""Count how often a sentence's nearest one is its translation, by layer and in both directions.

Nearest neighbours by Euclidean distance, after each language's mean is subtracted (Pires et al. 2019).

Example:

  bertscope retrieve examples/paraphrases.tsv --plot retrieval.png
"""

from functools import partial
from typing import Literal

from rich.console import Console

from bertscope_workbench.analyses.retrieval import RetrievedSentences, retrieval_document, retrieve_sentences
from bertscope_workbench.command import options
from bertscope_workbench.command.groups import flag, offered, option
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.translations import TranslationOptions, enough_left
from bertscope_workbench.command.views.output import percent, plural, print_heading, table, titled
from bertscope_workbench.command.views.progress import waiting
from bertscope_workbench.plots.retrieval import save_retrieval


def retrieve(
    *,
    server: ServerOptions,
    file: TranslationOptions,
    layer: options.Layers = None,
    pooling: Literal["mean", "first"] = option(
        "--pooling", "A sentence's vector: the mean of its pieces, or [CLS].", default="mean"
    ),
    uncentred: bool = flag("--uncentred", "Do not subtract each language's mean."),
    out: OutputOptions = offered(output="Write a row for each layer and direction: .csv, .jsonl, ..."),
    call: options.LongCallOptions,
) -> None:
    source = file.source()
    sources, targets = zip(*source.items, strict=True)
    with server.connect(call.timeout) as client, enough_left(source), waiting("reading states"):
        found = retrieve_sentences(
            client,
            sources,
            targets,
            layers=layer,
            pooling=pooling,
            centred=not uncentred,
            on_rejected=source.reject,
            **call.arguments(),
        )
    written = out.write(found, partial(save_retrieval, found))
    print_result(found, retrieval_document, print_retrieval, json=call.json, written=written, source=source)


def print_retrieval(screen: Console, found: RetrievedSentences) -> None:
    """Prints a row for each layer: the share of translations found in each direction with its interval, and their mean rank."""
    print_heading(screen, found.provenance.model, plural(len(found.pairs), "pair"), truncated=found.truncated_texts)
    sides = [
        zip(
            found.accuracy(backward=back),
            found.intervals(backward=back),
            found.mean_reciprocal_rank(backward=back),
            ties,
            strict=True,
        )
        for back, ties in ((False, found.forward_ties), (True, found.backward_ties))
    ]
    rows = ([layer, *forward, *backward] for layer, forward, backward in zip(found.layers, *sides, strict=True))
    columns = [column for way in ("forward#%", "backward#%") for column in (way, "95 %#100", "mean 1/rank#.3f", "ties#")]
    result = table(["layer#", *columns], rows)
    title = "sentences whose translation is nearest, by layer; layer 0 is the embeddings"
    screen.print(titled(f"{title}; chance {percent(found.chance)}", result))
    centred = "each language's mean is subtracted" if found.centred else "no mean is subtracted"
    vector = "mean of the pieces" if found.pooling == "mean" else "[CLS]"
    screen.print(f"vector: {vector}; {centred}. forward: from a source to its target", style="dim")
