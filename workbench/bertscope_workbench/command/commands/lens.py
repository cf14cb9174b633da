"""Show what a model would predict at every layer; which of its parts favour an answer; or train a tuned lens.

Examples:

  bertscope lens "Paris is the capital of [MASK]."
  bertscope lens "The keys to the cabinet [MASK] on the table." --candidates are,is --plot lens.png
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from bertscope import LensTexts, load_lens
from bertscope.questions.representations.attribution import LogitAttributions
from rich.console import Console

from bertscope_workbench.command import groups, options
from bertscope_workbench.command.checked_commands import modes
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.looks import LOOKS
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.texts import answers_document
from bertscope_workbench.command.parts.lens_training import Normalisation, train_lens
from bertscope_workbench.command.views.attribution import attribution_document, print_attribution
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.lens import print_lens
from bertscope_workbench.command.views.output import UsageError, printable
from bertscope_workbench.command.views.progress import waiting
from bertscope_workbench.plots.attribution import save_attribution
from bertscope_workbench.plots.lens import save_lens

app = modes("lens", __doc__, train="train FILE", attribute="attribute A,B TEXT")

Pair = Annotated[str | None, option("--pair TEXT", "A second text, read with it.")]
Files = Annotated[
    OutputOptions, offered("output", *LOOKS, output="Write a row for each number: .csv, .tsv, .jsonl, .parquet, .tex.")
]


@app.command("read", help=__doc__)
def read(
    *,
    text: str = argument("TEXT", 'The text, with "[MASK]" unless --all-pieces is set.'),
    pair: Pair = None,
    layer: options.StateLayers = None,
    top_k: int | None = option("--top-k, -k", "How many predictions at each layer; 5 unless set.", min=1),
    candidates: list[str] | None = option(
        "--candidates, --answers A,B", "Words to follow through the layers, with commas between.", reads=specifications.words
    ),
    all_pieces: bool = flag("--all-pieces", "Read every piece, not only masks."),
    normalisation: Normalisation = None,
    lens: Path | None = option("--lens FILE", "Read through the tuned lens that `lens train --keep` wrote."),
    out: Files,
    call: options.CallOptions,
    to: ModelOptions,
) -> None:
    through = None if lens is None else read_file(lens, load_lens)
    with to.connect(call.timeout) as client:
        found = client.read_layers(
            text if pair is None else (text, pair),
            layers=layer,
            top_k=top_k,
            candidates=candidates,
            all_pieces=all_pieces,
            normalisation=normalisation,
            lens=through,
            **to.arguments(),
            **call.arguments(),
        )
    written = out.write(found, partial(save_lens, found[0]))

    def show(screen: Console, found: LensTexts) -> None:
        print_lens(screen, found[0])
        if lens is not None:
            said = printable(f"states before the last went through the maps of {lens} first")
            screen.print(said, style="dim", soft_wrap=True)

    print_result(found, answers_document, show, json=call.json, written=written)


@app.command("attribute")
def attribute(
    *,
    answers: str = argument("A,B", "Two answers."),
    text: str = argument("TEXT", 'The text, with "[MASK]".'),
    pair: Pair = None,
    mask: int | None = option("--mask", "Which mask, from 0, if there are several.", min=0),
    ablate: bool = flag("--ablate", "Also zero each head, and see how the difference falls."),
    out: Files,
    call: options.CallOptions,
    to: ModelOptions,
) -> None:
    """Show what each head and feed-forward block adds to the logit of A minus that of B; `bertscope attribute`: each word.

    Example:

      bertscope lens attribute are,is "The keys to the cabinet [MASK] on the table." --ablate
    """
    first, *others = groups.read("A,B", specifications.words, answers)
    if len(others) != 1:
        raise UsageError(f"{answers!r}: name two answers, A,B")
    asked: dict[str, Any] = to.arguments() | call.arguments()
    one = text if pair is None else (text, pair)
    with to.connect(call.timeout) as client, waiting("attributing"):
        (added,) = client.attribute_logits(one, (first, others[0]), mask=mask, ablate=ablate, **asked)
    written = out.write(LogitAttributions([added]), partial(save_attribution, added))
    print_result(added, attribution_document, print_attribution, json=call.json, written=written)


app.command("train")(train_lens)
