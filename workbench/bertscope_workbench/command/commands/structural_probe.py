"""Train a structural probe on each layer, to see whether distances between its states are those in a sentence's tree.

Example:

  bertscope structural-probe examples/sentences.conllu --layers 0,2,4
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bertscope import InvalidArgument, StructuralProbeResult
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, offered, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.looks import LOOKS
from bertscope_workbench.command.options.results import AskedResult, OutputOptions
from bertscope_workbench.command.options.sources import print_problems
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.output import PARTS, percent, plural, trained_document
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.command.views.result_tables import print_layers
from bertscope_workbench.plots.structural_probes import save_structural_probe
from bertscope_workbench.readers.treebanks import TreeTexts, read_tree_conllu


def structural_probe(
    *,
    to: ModelOptions,
    file: Path = argument("TRAIN", "Sentences to train on: a treebank (.conllu)."),
    dev: Path | None = option("--dev FILE", "Sentences that end training; a tenth of TRAIN unless set."),
    test: Path | None = option("--test FILE", "Sentences that scores are of; those of --dev unless set."),
    quantity: Literal["distance", "depth"] = option(
        "--quantity", "Distances between words in the tree, or the depth of words.", default="distance"
    ),
    rank: int | None = option("--rank", "Dimensions of the map; at most 64 unless set.", min=1),
    layer: options.StateLayers = None,
    pooling: options.WordPooling = "mean",
    epochs: int | None = option("--epochs", "Most passes over TRAIN; 40 unless set.", min=1),
    seeds: int = option("--seeds", "Probes of each layer that differ in their seed.", default=1, min=1),
    seed: int = option("--seed", "The first seed.", default=0, min=0),
    limit: options.LimitOfEach = None,
    out: OutputOptions = offered("output", *LOOKS, output="Write a row for each layer: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.LongCallOptions,
) -> None:
    parts = [_read(path, limit) for path in (file, dev, test)]
    asked = AskedResult[Any](to, call, out)
    with asked.asking(training()) as (client, how):
        found = client.train_structural_probe(
            parts[0],
            quantity=quantity,
            dev=parts[1],
            test=parts[2],
            layers=layer,
            rank=rank,
            pooling=pooling,
            max_epochs=epochs,
            seeds=seeds,
            seed=seed,
            **how,
        )
    problems = [problem for part in parts if part for problem in part.problems]
    view = partial(print_structural_probe, problems=problems)
    asked.show(found, document, view, partial(save_structural_probe, found))


def _read(path: Path | None, limit: int | None) -> TreeTexts:
    """Returns the sentences of a treebank, none without one. Raises Failure for a file that can't be read."""
    return TreeTexts() if path is None else read_file(path, lambda path: read_tree_conllu(path, limit=limit))


def print_structural_probe(screen: Console, found: StructuralProbeResult, problems: Sequence[InvalidArgument]) -> None:
    """Prints a row for each layer, the chain, and what was left out."""
    part, distances = found.part, found.quantity == "distance"
    score, spearman = ("UUAS", "DSpr.") if distances else ("root", "NSpr.")
    headings = {
        "score": score,
        "spearman": spearman,
        "control_score": f"random {score}",
        "control_spearman": f"random {spearman}",
    }
    heading = f"{found.quantity} in the tree, rank {found.rank}"
    heading += f", {plural(found.train.used_texts, 'sentence')} to train on, "
    heading += f"scores of {plural(part.used_texts, 'sentence')} ({found.scored})"
    print_layers(screen, found, heading, "the lowest loss on the dev sentences", **headings)
    what = "words in a chain" if distances else "words in a chain, the first its root"
    screen.print(Text(f"{what}: {score} {percent(found.chain_score)}, {spearman} {found.chain_spearman:.3f}"))
    if not part.correlated_texts:
        screen.print(Text("no sentence of 5 to 50 words, which correlations are of", style="yellow"))
    for name in PARTS:
        own = getattr(found, name)
        if own is not None and own.truncated_words + own.empty_words + own.texts - own.used_texts:
            counts = f"{own.truncated_words} words cut away, {own.empty_words} without a piece"
            counts += f", {plural(own.texts - own.used_texts, 'sentence')} of fewer than two words"
            screen.print(Text(f"left out of {name}: {counts}", style="yellow"))
    print_problems(screen, problems)


def document(found: StructuralProbeResult) -> dict[str, Any]:
    """Returns the scores as one JSON document."""
    chain = {"score": found.chain_score, "spearman": found.chain_spearman}
    return trained_document(found, "quantity", "rank", "scored", "best_layer", "seconds", parts="used_texts", chain=chain)
