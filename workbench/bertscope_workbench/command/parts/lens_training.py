"""Defines the options of `bertscope lens` that train or take a tuned lens, and trains one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from bertscope import TunedLens, load_lens
from bertscope.questions.representations.tuned_lens import COLUMNS
from bertscope.values.validation import TextOrPair

from bertscope_workbench.command.options import LongCallOptions
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.groups import refuse
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.files import kept, reading, require_output
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.command.views.tuned_lens import document, print_tuned_lens


@dataclass(frozen=True)
class TunedLensOptions:
    """The lens to train, or to read through."""

    lens: Annotated[
        Path | None, typer.Option("--lens", metavar="FILE", help="Read through the tuned lens that --keep wrote.")
    ] = None
    train: Annotated[
        Path | None,
        typer.Option("--train", metavar="FILE", help="Instead, train a tuned lens on texts: .txt, .conllu or a table."),
    ] = None
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="FILE", help="Texts that end training; a tenth of --train unless set.")
    ] = None
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FILE", help="With --train: keep the lens for --lens: a file, .npz.")
    ] = None
    mask_rate: Annotated[
        float | None,
        typer.Option(
            "--mask-rate", min=0, max=1, metavar="X", help="With --train: the share of pieces that are masked; 0.15 unless set."
        ),
    ] = None
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="With --train: most passes over the texts; 20 unless set.")
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="With --train: draws masks and the order of pieces; 0 unless set.")
    ] = None

    def __post_init__(self) -> None:
        own = {"--dev": self.dev, "--keep": self.keep, "--mask-rate": self.mask_rate}
        if self.train is None:
            refuse({**own, "--epochs": self.epochs, "--seed": self.seed}, "goes with --train")

    def loaded(self) -> TunedLens | None:
        """Returns the lens of --lens. Raises Failure for a file that can't be read."""
        path = self.lens
        if path is None:
            return None
        with reading(path):
            return load_lens(path)


def train_lens(
    server: ServerOptions,
    asked: TunedLensOptions,
    base: InterventionOptions,
    out: OutputOptions,
    call: LongCallOptions,
    **arguments: Any,
) -> None:
    """Trains a lens, prints how well it reads each layer, and writes the requested files."""
    require_output(asked.keep, (".npz",), "--keep")
    train, dev = _texts(asked.train), _texts(asked.dev)
    with server.connect(call.timeout) as client, training() as show:
        found = client.train_lens(
            train,
            dev=dev,
            mask_rate=asked.mask_rate,
            max_epochs=asked.epochs,
            seed=asked.seed or 0,
            **base.arguments(),
            on_progress=show,
            **call.arguments(),
            **arguments,
        )
    written = out.write(COLUMNS, rows=found.rows())
    if asked.keep is not None:
        written.append(kept(found.save, asked.keep))
    print_result(found, document, print_tuned_lens, json=call.json, written=written)


def _texts(path: Path | None) -> list[TextOrPair]:
    return [] if path is None else list(TextFileOptions(texts=path).source().items)
