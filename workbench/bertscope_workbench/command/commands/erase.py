"""Find, for each layer, the linear map that erases a label of words, and what a probe reads before and after."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from bertscope import Eraser
from bertscope.questions.probes.erasers import eraser_columns
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command import options
from bertscope_workbench.command.commands.probe import print_left_out, read_probe_part
from bertscope_workbench.command.groups import Offered, argument, option
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.sources import print_problems
from bertscope_workbench.command.views.files import kept
from bertscope_workbench.command.views.output import percent, plural, printable, table, titled
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.readers.treebanks import ProbeTexts


def erase(
    *,
    to: ModelOptions,
    file: Annotated[Path, argument("TRAIN", "Sentences to train on: .conllu, .tsv or .jsonl.")],
    test: Annotated[Path | None, option("--test FILE", "Sentences to test on; a fifth of TRAIN unless set.")] = None,
    label: Annotated[
        Literal["upos", "xpos", "deprel", "head", "depth"],
        option("--label", "The column to erase; the head's place; or the depth in the tree."),
    ] = "upos",
    method: Annotated[
        Literal["leace", "inlp"], option("--method", "In closed form (LEACE), or probe after probe (INLP).")
    ] = "leace",
    rank: Annotated[int | None, option("--rank N", "With inlp: most dimensions to take away; 64 unless set.", min=1)] = None,
    layer: options.StateLayers = None,
    pooling: options.WordPooling = "mean",
    seed: Annotated[int, option("--seed", "Draws the test sentences and the random subspaces.", min=0)] = 0,
    limit: options.LimitOfEach = None,
    out: Annotated[OutputOptions, Offered("output", output="Write a row for each layer: .csv, .tsv, .jsonl, .parquet.")],
    save: Annotated[Path | None, option("--save FILE", "Keep the erasers for --erase of other commands: a file, .npz.")] = None,
    call: options.LongCallOptions,
) -> None:
    parts = [read_probe_part(path, label, limit) for path in (file, test)]
    with to.connect(call.timeout) as client, training() as show:
        found = client.train_eraser(
            parts[0],
            method=method,
            test=parts[1],
            layers=specifications.numbers("--layer", layer),
            rank=rank,
            pooling=pooling,
            seed=seed,
            **to.arguments(),
            on_progress=show,
            **call.arguments(),
        )
    written = out.write(eraser_columns(found))
    if save is not None:
        written.append(kept(found.save, save))
    print_result(found, document, partial(print_eraser, parts=parts), json=call.json, written=written)


def print_eraser(screen: Console, found: Eraser, parts: list[ProbeTexts]) -> None:
    """Prints a row for each layer, and what was left out."""
    heading = f"{found.provenance.model}: {len(found.labels)} classes erased by {found.method.upper()}"
    heading += f", {plural(found.train.spans, 'word')} to train on, {plural(found.test.spans, 'word')} to test on"
    rows = ([str(layer), str(rank), *map(percent, shares)] for layer, rank, *shares in found.rows())
    screen.print(titled(heading, table(["layer#", "rank#", "probe before#", "after#", "random subspace#"], rows)))
    screen.print(Text("layer 0 is the embeddings; the random subspace has as many dimensions"))
    screen.print(Text("always ").append_text(printable(repr(found.majority_label))).append(f": {percent(found.majority)}"))
    print_left_out(screen, found, ("train", "dev", "test"))
    print_problems(screen, [problem for part in parts for problem in part.problems])


def document(found: Eraser) -> dict[str, Any]:
    """Returns the scores as one JSON document; the maps are what --save writes."""
    return {
        "model": found.provenance.model,
        "weights": found.provenance.weights_digest,
        "labels": list(found.labels),
        "method": found.method,
        "spans": {name: getattr(found, name).spans for name in ("train", "dev", "test") if getattr(found, name) is not None},
        "majority": {"label": found.majority_label, "accuracy": found.majority},
        "layers": [dict(zip(eraser_columns(found), row, strict=True)) for row in found.rows()],
        "seconds": found.seconds,
    }
