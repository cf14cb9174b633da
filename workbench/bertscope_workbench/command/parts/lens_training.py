"""`bertscope lens train`: trains a tuned lens."""

from pathlib import Path
from typing import Annotated, Any, Literal

from bertscope import TunedLens
from bertscope.values.documents import fields_of
from bertscope.values.validation import TextOrPair
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, offered, option
from bertscope_workbench.command.options import StateLayers
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import AskedResult, OutputOptions
from bertscope_workbench.command.views.files import kept, require_output
from bertscope_workbench.command.views.output import printable, titled
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.command.views.result_tables import result_table

Normalisation = Annotated[
    Literal["none", "final"] | None,
    option("--normalisation", "Read states as they are, or after the model's last normalisation."),
]


def train_lens(
    *,
    train: Path = argument("FILE", "Texts to train on: .txt, .conllu or a table."),
    dev: Path | None = option("--dev FILE", "Texts that end training; a tenth of FILE unless set."),
    keep: Path | None = option("--keep FILE", "Keep the lens for --lens: a file, .npz."),
    layer: StateLayers = None,
    normalisation: Normalisation = None,
    mask_rate: float | None = option("--mask-rate X", "The share of pieces that are masked; 0.15 unless set.", min=0, max=1),
    epochs: int | None = option("--epochs", "Most passes over the texts; 20 unless set.", min=1),
    seed: int = option("--seed", "Draws masks and the order of pieces.", default=0, min=0),
    out: OutputOptions = offered("output", output="Write a row for each layer: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.LongCallOptions,
    to: ModelOptions,
) -> None:
    """Train a tuned lens: for each layer a map to what the last one predicts.

    Example:

      bertscope lens train examples/sentences.txt --epochs 2 --keep lens.npz
    """
    require_output(keep, (".npz",), "--keep")
    texts, held = _texts(train), _texts(dev)
    asked = AskedResult[Any](to, call, out)
    own: dict[str, Any] = {"normalisation": normalisation, "mask_rate": mask_rate, "max_epochs": epochs, "seed": seed}
    with asked.asking(training()) as (client, how):
        found = client.train_lens(texts, dev=held, layers=layer, **own, **how)
    asked.show(found, document, print_tuned_lens, written=[] if keep is None else [kept(found.save, keep)])


def _texts(path: Path | None) -> list[TextOrPair]:
    return [] if path is None else list(TextFileOptions(file=path).source().items)


def document(found: TunedLens) -> dict[str, Any]:
    """Returns the fits in JSON types, without the maps."""
    maps = {"layers": found.records(), "versions": dict(found.versions)}
    weights = {"model": found.model, "weights": found.weights_digest}
    return weights | fields_of(found, "normalisation", "numbering", "last_layer") | maps


def print_tuned_lens(screen: Console, found: TunedLens) -> None:
    """Prints a row for each layer: its divergence and agreement without and with the map, the last layer on top."""
    result = result_table(found, rows=found.records()[::-1])
    screen.print(titled("KL of the last layer to this one, nats, and the same likeliest entry, on the dev texts", result))
    states = "as they are" if found.normalisation == "none" else "after the model's last normalisation"
    screen.print(printable(f"{found.model}; layer 0: the embeddings; mapped states are read {states}"), style="dim")
