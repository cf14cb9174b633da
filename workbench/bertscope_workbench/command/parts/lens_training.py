"""Defines the options of `bertscope lens` that train or take a tuned lens, and trains one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from bertscope import TunedLens, load_lens
from bertscope.values.documents import fields_of
from bertscope.values.validation import TextOrPair
from rich.console import Console

from bertscope_workbench.command.groups import option, refuse, values_of
from bertscope_workbench.command.options import LongCallOptions
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.views.files import kept, read_file, require_output
from bertscope_workbench.command.views.output import printable, titled
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.command.views.result_tables import result_table


@dataclass(frozen=True)
class TunedLensOptions:
    """The lens to train, or to read through."""

    lens: Annotated[Path | None, option("--lens FILE", "Read through the tuned lens that --keep wrote.")] = None
    train: Annotated[
        Path | None,
        option("--train FILE", "Instead, train a tuned lens on texts: .txt, .conllu or a table."),
    ] = None
    dev: Annotated[Path | None, option("--dev FILE", "Texts that end training; a tenth of --train unless set.")] = None
    keep: Annotated[Path | None, option("--keep FILE", "With --train: keep the lens for --lens: a file, .npz.")] = None
    mask_rate: Annotated[
        float | None,
        option("--mask-rate X", "With --train: the share of pieces that are masked; 0.15 unless set.", min=0, max=1),
    ] = None
    epochs: Annotated[int | None, option("--epochs", "With --train: most passes over the texts; 20 unless set.", min=1)] = None
    seed: Annotated[
        int | None,
        option("--seed", "With --train: draws masks and the order of pieces; 0 unless set.", min=0),
    ] = None

    def __post_init__(self) -> None:
        if self.train is None:
            refuse(values_of(self, "dev", "keep", "mask_rate", "epochs", "seed"), "goes with --train")

    def loaded(self) -> TunedLens | None:
        """Returns the lens of --lens. Raises Failure for a file that can't be read."""
        return None if self.lens is None else read_file(self.lens, load_lens)


def train_lens(
    to: ModelOptions,
    asked: TunedLensOptions,
    out: OutputOptions,
    call: LongCallOptions,
    **arguments: Any,
) -> None:
    """Trains a lens, prints how well it reads each layer, and writes the requested files."""
    require_output(asked.keep, (".npz",), "--keep")
    train, dev = _texts(asked.train), _texts(asked.dev)
    with to.connect(call.timeout) as client, training() as show:
        found = client.train_lens(
            train,
            dev=dev,
            mask_rate=asked.mask_rate,
            max_epochs=asked.epochs,
            seed=asked.seed or 0,
            **to.arguments(),
            on_progress=show,
            **call.arguments(),
            **arguments,
        )
    written = out.write(found)
    if asked.keep is not None:
        written.append(kept(found.save, asked.keep))
    print_result(found, document, print_tuned_lens, json=call.json, written=written)


def _texts(path: Path | None) -> list[TextOrPair]:
    return [] if path is None else list(TextFileOptions(texts=path).source().items)


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
