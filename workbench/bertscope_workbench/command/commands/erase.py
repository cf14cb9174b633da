"""Find the linear map that erases a label of words, in each layer, and what a probe reads before and after.

With --loss, also what the masked-LM loss of texts is with the label erased in one layer, beside a random subspace of the same
rank (amnesic probing, Elazar et al. 2021).

Example:

  bertscope erase examples/sentences.conllu --label upos --layer 2,4 --save upos.npz
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bertscope import Client, Eraser
from bertscope.values.columns import Column
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command import options
from bertscope_workbench.command.commands.probe import read_probe_part
from bertscope_workbench.command.groups import argument, offered, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import AskedResult, OutputOptions
from bertscope_workbench.command.options.sources import print_problems
from bertscope_workbench.command.views.files import kept, read_file, require_output
from bertscope_workbench.command.views.output import percent, plural, print_left_out, printable, table, titled, trained_document
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.readers import files
from bertscope_workbench.readers.treebanks import ProbeTexts


def erase(
    *,
    to: ModelOptions,
    file: Path = argument("TRAIN", "Sentences to train on: .conllu, .tsv or .jsonl."),
    test: Path | None = option("--test FILE", "Sentences to test on; a fifth of TRAIN unless set."),
    label: Literal["upos", "xpos", "deprel", "head", "depth"] = option(
        "--label", "The column to erase; the head's place; or the depth in the tree.", default="upos"
    ),
    method: Literal["leace", "inlp"] = option(
        "--method", "In closed form (LEACE), or probe after probe (INLP).", default="leace"
    ),
    rank: int | None = option("--rank N", "With inlp: most dimensions to take away; 64 unless set.", min=1),
    layer: options.StateLayers = None,
    pooling: options.WordPooling = "mean",
    seed: int = option("--seed", "Draws the test sentences and the random subspaces.", default=0, min=0),
    loss: Path | None = option("--loss FILE", 'Also measure the masked-LM loss of texts: .txt, or column "text" of a table.'),
    limit: options.LimitOfEach = None,
    out: OutputOptions = offered("output", output="Write a row for each layer: .csv, .tsv, .jsonl, .parquet, .tex."),
    save: Path | None = option("--save FILE", "Keep the erasers for --erase of other commands: a file, .npz."),
    call: options.LongCallOptions,
) -> None:
    require_output(save, (".npz",), "--save")
    parts = [read_probe_part(path, label, limit) for path in (file, test)]
    texts = None if loss is None else read_file(loss, files.read_texts)
    asked = AskedResult[Any](to, call, out)
    with asked.asking(training()) as (client, how):
        found = client.train_eraser(
            parts[0], method=method, test=parts[1], layers=layer, rank=rank, pooling=pooling, seed=seed, **how
        )
        losses = None if texts is None else amnesic(client, found, texts, call, to)
    columns = {**found.columns(), **({} if losses is None else losses.columns())}
    maps = [] if save is None else [kept(found.save, save)]
    shown = partial(print_eraser, parts=parts, losses=losses)
    asked.show(found, partial(document, losses=losses), shown, table=columns, written=maps)


@dataclass(frozen=True)
class Losses:
    """The mean masked-LM loss of a piece, nats: untouched, and by layer with the classes erased, and with a random subspace
    taken away; None where there was nothing to erase."""

    untouched: float
    erased: Sequence[float | None]
    random: Sequence[float | None]

    def columns(self) -> dict[str, list[float | None]]:
        """Returns the columns of the table, by name."""
        return {"loss": [self.untouched] * len(self.erased), "loss_erased": [*self.erased], "loss_random": [*self.random]}


def amnesic(client: Client, found: Eraser, texts: Sequence[str], call: options.LongCallOptions, to: ModelOptions) -> Losses:
    """Measures the loss of texts untouched, and with each layer's map and random projection."""
    asked = to.arguments()

    def measured(changes: Sequence[Any]) -> float:
        own = asked | {"interventions": [*asked["interventions"], *changes]}
        scores = client.score_texts(texts, **own, model=call.model, truncate=call.truncate)
        return -sum(one.log_likelihood for one in scores) / max(1, sum(one.scored_pieces for one in scores))

    def each(change: Callable[[int], Any]) -> list[float | None]:
        return [measured([change(layer)]) if one.rank else None for layer, one in found.layers.items()]

    return Losses(measured([]), each(found.change), each(found.random_change))


def print_eraser(screen: Console, found: Eraser, parts: list[ProbeTexts], losses: Losses | None = None) -> None:
    """Prints a row for each layer, and what was left out."""
    heading = f"{found.provenance.model}: {len(found.labels)} classes erased by {found.method.upper()}"
    heading += f", {plural(found.train.spans, 'word')} to train on, {plural(found.test.spans, 'word')} to test on"
    measured = [(None, None)] * len(found.layers) if losses is None else zip(losses.erased, losses.random, strict=True)
    rows = ([*row.values(), *own] for row, own in zip(found.records(), measured, strict=True))
    columns: list[str | Column] = [*found.declared(), "loss erased#.3f", "loss random#.3f"]
    screen.print(titled(heading, table(columns, rows)))
    if losses is not None:
        screen.print(Text(f"masked-LM loss untouched: {losses.untouched:.3f} nats a piece"))
    screen.print(Text("layer 0 is the embeddings; random: a subspace of as many dimensions is taken away"))
    screen.print(Text("probes read standardised states"))
    screen.print(Text("always ").append_text(printable(repr(found.majority_label))).append(f": {percent(found.majority)}"))
    print_left_out(screen, found)
    print_problems(screen, [problem for part in parts for problem in part.problems])


def document(found: Eraser, losses: Losses | None = None) -> dict[str, Any]:
    """Returns the scores as one JSON document; the maps are what --save writes."""
    majority = {"label": found.majority_label, "accuracy": found.majority}
    shown = trained_document(found, "labels", "method", "seconds", parts="spans", majority=majority)
    for name, values in ({} if losses is None else losses.columns()).items():
        for row, value in zip(shown["layers"], values, strict=True):
            row[name] = value
    return shown
