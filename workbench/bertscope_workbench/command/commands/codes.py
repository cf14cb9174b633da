"""Train sparse codes of a layer's states, or show what is known of a file of codes.

Other commands change codes by --codes FILE with --scale-site code:L:N=0.

Example:

  bertscope codes codes.safetensors
"""

from pathlib import Path
from typing import Any

from bertscope import SparseCodes
from bertscope.values.documents import fields_of
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import modes
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import AskedResult, OutputOptions, print_result
from bertscope_workbench.command.views.files import kept, read_file, require_output
from bertscope_workbench.command.views.output import printable, table, titled
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.readers.embedded_codes import read_codes

app = modes("codes", __doc__, train="train FILE --layer L")


@app.command("show", help=__doc__)
def show(
    *,
    file: Path = argument("FILE", "Codes that `codes train --save` wrote; embedded: those that ship."),
    out: OutputOptions = offered("output", output="Write the scores: .csv, .tsv, .jsonl, .parquet, .tex."),
    json: options.Json = False,
) -> None:
    found = read_file(file, read_codes)
    print_result(found, document, print_codes, json=json, written=out.write(found))


@app.command("train")
def train(
    *,
    file: Path = argument("FILE", "Texts to train on: .txt, .conllu or a table."),
    dev: Path | None = option("--dev FILE", "Texts that scores are of; a tenth of FILE unless set."),
    layer: int = option("--layer L", "The state: 0 the embeddings, k after layer k - 1.", default=..., min=0),
    count: int | None = option("--count N", "Codes; four times a state's length unless set.", min=1),
    active: int | None = option("--active N", "Codes active at a piece on average; 32 unless set.", min=1),
    mask_rate: float | None = option("--mask-rate X", "The share of pieces that are masked; 0.15 unless set.", min=0, max=1),
    rate: float | None = option("--rate X", "Adam's learning rate; 0.003 unless set."),
    epochs: int | None = option("--epochs N", "Passes over the texts; 10 unless set.", min=1),
    seed: int = option("--seed", "Draws directions, masks, the order of pieces and --dev.", default=0, min=0),
    limit: int | None = option("--limit N", "Take the first N texts of each file.", min=1),
    about: str = option("--about TEXT", "Kept with the codes: what the texts are, a licence.", default=""),
    save: Path | None = option("--save FILE", "Keep the codes for --codes: a file, .safetensors."),
    half: bool = flag("--half", "With --save: as float16.", needs="save"),
    out: OutputOptions = offered("output", output="Write the scores: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.LongCallOptions,
    to: ModelOptions,
) -> None:
    """Train sparse codes of a layer's states, and say what the masked-LM loss is with them in place of the states.

    Example:

      bertscope codes train examples/sentences.txt --layer 3 --count 64 --active 8 --save codes.safetensors
    """
    require_output(save, (".safetensors",), "--save")
    parts = [[] if path is None else TextFileOptions(file=path, limit=limit).source().items for path in (file, dev)]
    asked = AskedResult[Any](to, call, out)
    with asked.asking(training()) as (client, how):
        found = client.train_codes(
            parts[0],
            layer=layer,
            dev=parts[1],
            codes=count,
            active=active,
            mask_rate=mask_rate,
            learning_rate=rate,
            epochs=epochs,
            seed=seed,
            **how,
        ).described(about)
    files = [] if save is None else [kept(lambda path: found.save(path, half=half), save)]
    asked.show(found, document, print_codes, written=files)


def document(found: SparseCodes) -> dict[str, Any]:
    """Returns the scores in JSON types, without the vectors."""
    (row,) = found.records()
    about = {"model": found.model, "weights": found.weights_digest} | fields_of(found, "about")
    fit = {} if found.fit is None else fields_of(found.fit, "train_texts", "train_pieces", "dev_texts", "dev_pieces", "epochs")
    return about | row | fit | {"versions": dict(found.versions)}


def print_codes(screen: Console, found: SparseCodes) -> None:
    """Prints what codes explain, and what they cost the masked-LM loss."""
    heading = f"{found.model}: {len(found)} codes of state {found.layer}"
    fit = found.fit
    if fit is None:
        screen.print(printable(heading))
        return
    heading += f", trained on {fit.train_pieces} pieces, measured on {fit.dev_pieces}"
    row = [fit.explained, fit.mean_active, fit.dead]
    screen.print(titled(heading, table(["variance explained#%", "active at a piece#.1f", "dead#"], [row])))
    screen.print("variance explained: of that around the mean of the pieces that codes were trained on", style="dim")
    if fit.losses is not None:
        losses = fit.losses
        rows = [
            ["the state", losses.loss, None],
            ["the codes' sum", losses.coded, None],
            ["the mean state", losses.mean, losses.recovered_from_mean],
            ["zeros", losses.zero, losses.recovered],
        ]
        names = ["in place of the state", "loss#.3f", "codes recover#%"]
        screen.print(titled(f"masked-LM loss of {losses.pieces} masked pieces, nats a piece", table(names, rows)))
    if found.about:
        screen.print(printable(found.about), style="dim")
