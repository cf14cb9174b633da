"""Train a smaller model to answer as a larger one does; what comes out is a new model, and the old one stays.

--steps are those of `bertscope compress`: they make the student. int8 at the end trains it with the rounding of 8-bit integers
(quantization-aware training); without steps the teacher is trained on.

A masked LM learns from any texts, at masks. A classifier, of texts or of tokens, learns its teacher's probabilities, and one of
texts with --labelled and --hard their labels too.

If it is cut off, the same command goes on from what the server kept beside --folder.

Examples:

  bertscope distill --steps layers=0+2+4 --train corpus.txt --name small --folder /models/small
  bertscope distill --steps int8 --train corpus.txt --name rounded --folder /models/rounded --epochs 1
  bertscope distill --model sst2 --steps layers=0+1+2 --train train.tsv --labelled --hard 0.5 --name fast --folder /models/fast
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from bertscope import DistilledModel, LabelledTexts
from bertscope.values.bootstrap import MIN_ITEMS
from bertscope.values.choices import StateLoss
from bertscope.values.documents import fields_of
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.commands.compress import steps_named
from bertscope_workbench.command.groups import flag, offered, option
from bertscope_workbench.command.options import steps as step_grammar
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.models import print_models
from bertscope_workbench.command.views.output import plural, table, titled
from bertscope_workbench.command.views.progress import distilling
from bertscope_workbench.command.views.result_tables import result_table
from bertscope_workbench.readers import files

DISTANCES = " or ".join(get_args(StateLoss))


@dataclass(frozen=True)
class TrainingOptions(options.Arguments):
    """How the student is trained."""

    soft: float | None = option("--soft X", "Weight of the teacher's probabilities; 1 unless set.", min=0)
    temperature: float | None = option("--temperature X", "Softens them; 2 unless set.")
    hard: float | None = option("--hard X", "Weight of gold answers; 0 unless set.", min=0)
    states: float | None = option("--states X", "Weight of hidden states; 30 unless set.", min=0)
    state_loss: StateLoss | None = option("--state-loss NAME", f"Their distance: {DISTANCES}.")
    attention: float | None = option("--attention X", "Weight of attention maps; 0 unless set.", min=0)
    teacher_layers: list[int] | None = option(
        "--teacher-layer L", "The layer that the student's next one imitates. Repeatable.", min=0
    )
    epochs: int | None = option("--epochs N", "Passes over the texts; 3 unless set.", min=1)
    batch_tokens: int | None = option("--batch-tokens N", "Tokens of an update; 512 unless set.", min=1)
    learning_rate: float | None = option("--rate X", "AdamW's highest learning rate; 0.0005 unless set.")
    warm_up: float | None = option("--warm-up X", "Share of the training in which it rises; 0.05.", min=0, max=1)
    weight_decay: float | None = option("--weight-decay X", "AdamW's; 0.01 unless set.", min=0, max=1)
    mask_rate: float | None = option("--mask-rate X", "The share of pieces that are masked; 0.15 unless set.", min=0, max=1)
    evaluations: int | None = option("--evaluations N", "Times that --dev is run; 5 unless set.", min=1)
    seed: int = option("--seed", "Draws parts, masks and the order of texts.", default=0, min=0)
    truncate: bool = flag("--truncate", "Cut texts that are longer than the model reads.")
    train_embeddings: bool = flag("--train-embeddings", "Train them, too; else they stay the teacher's.")


def distill(
    *,
    server: ServerOptions,
    train: Path = option("--train FILE", "Texts to train on: .txt, .conllu or a table.", default=...),
    name: str = option("--name NEW", "The id that the new model gets.", default=...),
    folder: str = option("--folder DIR", "Where the server saves it.", default=...),
    steps: list[str] | None = option(
        "--steps STEP,STEP,...", "What makes the student; see bertscope compress --help. Repeatable."
    ),
    dev: Path | None = option("--dev FILE", "Texts that choose the weights; a tenth of --train unless set."),
    test: Path | None = option("--test FILE", "Texts that scores are of; a tenth of --train unless set."),
    labelled: bool = flag("--labelled", 'The files have labels: columns "text", "label" and maybe "text_pair".'),
    limit: int | None = option("--limit N", "Take the first N texts of each file.", min=1),
    how: TrainingOptions,
    out: OutputOptions = offered("output", output="Write the scores: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.LongCallOptions = offered("model", "timeout", "json"),
) -> None:
    written = step_grammar.split(steps) if steps else []
    asked = step_grammar.parse(written, None)
    parts = {key: _texts(path, limit, labelled=labelled) for key, path in (("texts", train), ("dev", dev), ("test", test))}
    with steps_named(written), server.connect(call.timeout) as client, distilling() as show:
        found = client.distill_model(
            name,
            **parts,
            folder=folder,
            steps=asked,
            model=call.model,
            **how.arguments(),
            on_progress=show,
            timeout=call.timeout,
        )
    print_result(found, document, print_distilled, json=call.json, written=out.write(found))


def _texts(path: Path | None, limit: int | None, *, labelled: bool) -> Any:
    """Returns the texts of a file, with their labels if it has them; none without a file."""
    if path is None:
        return ()
    if not labelled:
        return TextFileOptions(file=path, limit=limit).source().items
    return LabelledTexts(read_file(path, lambda path: files.read_labelled(path, limit=limit)))


def document(found: DistilledModel) -> dict[str, Any]:
    """Returns the scores in JSON types."""
    models, parts = fields_of(found, "teacher", "untrained", "student"), fields_of(found, "train", "dev", "test")
    shares = {
        name: {"share": one.share, "low": one.interval and one.interval.low, "high": one.interval and one.interval.high}
        for name, one in found.recoveries.items()
    }
    names = "teacher_layers", "updates", "best_update", "untrained_dev_loss", "best_dev_loss", "seconds", "resumed"
    return {"model": found.model.name, **models, "recovered": shares, "texts": parts, **fields_of(found, *names)}


def print_distilled(screen: Console, found: DistilledModel) -> None:
    """Prints the scores of teacher and student, and how much of the loss came back."""
    names = ["model", "accuracy", "loss", "agreement", "divergence"]
    heading = f"{plural(found.student.predictions, 'prediction')} in {plural(found.test.texts, 'text')} held out as a test"
    screen.print(titled(heading, result_table(found, names)))
    shares = [[name, one.share, one.interval] for name, one in found.recoveries.items()]
    if shares:
        screen.print(
            titled(
                "the share of what the untrained student lost that came back", table(["", "share#%", "95 % interval#%"], shares)
            )
        )
    if found.test.texts < MIN_ITEMS or any(one.interval is None for one in found.recoveries.values()):
        tested = plural(found.test.texts, "text")
        screen.print(f"a test of {tested} is too small to tell what training brought: give more with --test", style="yellow")
    if not found.best_update:
        screen.print("no evaluation on dev was better than before training: the untrained student is kept; try another --rate")
    print_models(screen, [found.model])
    screen.print(f"saved in {found.model.source} on the server, after {found.seconds:.0f} s of training")
