"""Defines the options of `bertscope lens` that train or take a tuned lens, and trains one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bertscope._validation import TextOrPair
from bertscope.choices import LensNormalisation
from bertscope.cli.commands.probe import readable
from bertscope.cli.options.describing import TextFileOptions
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.sources import Source
from bertscope.cli.views.files import require_output
from bertscope.cli.views.output import Failure, UsageError, console, print_json
from bertscope.cli.views.progress import studying
from bertscope.cli.views.table_files import require_table, write_table
from bertscope.cli.views.tuned_lens import document, print_tuned_lens
from bertscope.representations.tuned_lens import COLUMNS, TrainLensProgress, TunedLens, load_lens


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

    def require_train(self) -> None:
        """Raises UsageError for options of training without --train."""
        own = {
            "--dev": self.dev,
            "--keep": self.keep,
            "--mask-rate": self.mask_rate,
            "--epochs": self.epochs,
            "--seed": self.seed,
        }
        for option, value in own.items():
            if value is not None:
                raise UsageError(f"{option} goes with --train")

    def loaded(self) -> TunedLens | None:
        """Returns the lens of --lens. Raises Failure for a file that can't be read."""
        path = self.lens
        return None if path is None else readable(path, lambda: load_lens(path))


def train_lens(
    server: ServerOptions,
    asked: TunedLensOptions,
    base: InterventionOptions,
    layers: list[int] | None,
    normalisation: LensNormalisation | None,
    output: Path | None,
    given: Mapping[str, Any],
    *,
    json: bool,
) -> None:
    """Trains a lens, prints how well it reads each layer, and writes the requested files. `given`: arguments of the call."""
    require_table(output)
    require_output(asked.keep, (".npz",), "--keep")
    train, dev = _texts(asked.train), _texts(asked.dev)
    with server.connect(given["timeout"]) as client, studying() as show:

        def on_progress(event: TrainLensProgress) -> None:
            show("running the texts" if event.stage == "states" else "training", event.done, event.total)

        found = client.train_lens(
            train,
            dev=dev,
            layers=layers,
            normalisation=normalisation,
            mask_rate=asked.mask_rate,
            max_epochs=asked.epochs,
            seed=asked.seed or 0,
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
            on_progress=on_progress,
            **given,
        )
    written = []
    if output is not None:
        write_table(COLUMNS, found.rows(), output)
        written.append(output)
    if asked.keep is not None:
        written.append(_keep(found, asked.keep))
    if json:
        print_json(document(found))
        return
    screen = console()
    print_tuned_lens(screen, found)
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)


def _texts(path: Path | None) -> list[TextOrPair]:
    if path is None:
        return []
    source: Source[TextOrPair] = TextFileOptions(path).source([])
    return list(source.items)


def _keep(found: TunedLens, path: Path) -> Path:
    try:
        found.save(path)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from error
    return path
