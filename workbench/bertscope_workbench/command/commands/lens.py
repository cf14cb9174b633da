"""Show what a model would predict at every layer, or with --attribute which of its parts favour an answer; with --train,
train a tuned lens. `bertscope attribute` shows which words do."""

from functools import partial
from typing import Annotated, Any, Literal

from bertscope import LensNormalisation, LensTexts
from bertscope.questions.representations.attribution import LogitAttributions
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import Offered, argument, option, refuse
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.looks import LOOKS
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.texts import answers_document
from bertscope_workbench.command.parts.lens_training import TunedLensOptions, train_lens
from bertscope_workbench.command.views.attribution import attribution_document, print_attribution
from bertscope_workbench.command.views.lens import print_lens
from bertscope_workbench.command.views.output import UsageError, printable
from bertscope_workbench.command.views.progress import waiting
from bertscope_workbench.plots.attribution import save_attribution
from bertscope_workbench.plots.lens import save_lens


def lens(
    *,
    to: ModelOptions,
    tuned: TunedLensOptions,
    text: Annotated[str | None, argument("TEXT", 'The text, with "[MASK]" unless --all-pieces is set.')] = None,
    pair: Annotated[str | None, option("--pair TEXT", "A second text, read with it.")] = None,
    layer: Annotated[
        list[str] | None, option("--layer, --layers L[,L]", "States: 0 the embeddings, k after layer k - 1; all unless set.")
    ] = None,
    top_k: Annotated[int | None, option("--top-k, -k", "How many predictions at each layer; 5 unless set.", min=1)] = None,
    candidates: Annotated[
        str | None, option("--candidates, --answers A,B", "Words to follow through the layers, with commas between.")
    ] = None,
    all_pieces: Annotated[bool, option("--all-pieces", "Read every piece, not only masks.")] = False,
    normalisation: Annotated[
        Literal["none", "final"] | None,
        option("--normalisation", "Read states as they are, or after the model's last normalisation."),
    ] = None,
    attribute: Annotated[
        str | None,
        option(
            "--attribute A,B",
            "Instead, show what each head and feed-forward block adds to the logit of A minus that of B; for words: attribute.",
        ),
    ] = None,
    mask: Annotated[int | None, option("--mask", "With --attribute: which mask, from 0, if there are several.", min=0)] = None,
    ablate: Annotated[
        bool, option("--ablate", "With --attribute: also zero each head, and see how the difference falls.")
    ] = False,
    out: Annotated[
        OutputOptions, Offered("output", *LOOKS, output="Write a row for each number: .csv, .tsv, .jsonl, .parquet, .tex.")
    ],
    call: Annotated[options.LongCallOptions, Offered(timeout="How long an answer may take; with --train no limit unless set.")],
) -> None:
    chosen: LensNormalisation | None = normalisation
    layers = specifications.numbers("--layer", layer)
    reading = {"--top-k": top_k, "--candidates": candidates, "--all-pieces": all_pieces}
    if tuned.train is not None:
        others = {
            "TEXT": text,
            "--pair": pair,
            "--lens": tuned.lens,
            "--attribute": attribute,
            "--mask": mask,
            "--ablate": ablate,
        }
        refuse({**others, **reading, "--plot": out.plot}, "does not go with --train")
        train_lens(to, tuned, out, call, layers=layers, normalisation=chosen)
        return
    if text is None:
        raise UsageError("give TEXT, or --train FILE")
    timeout = options.TIMEOUT if call.timeout is None else call.timeout
    asked: dict[str, Any] = to.arguments() | call.arguments() | {"timeout": timeout}
    one = text if pair is None else (text, pair)
    if attribute is not None:
        lens_alone = {"--layer": layer, "--normalisation": normalisation, "--lens": tuned.lens}
        refuse({**reading, **lens_alone}, "does not go with --attribute")
        words = specifications.words("--attribute", attribute)
        if len(words) != 2:
            raise UsageError(f"--attribute {attribute!r}: name two answers, A,B")
        with to.connect(timeout) as client, waiting("attributing"):
            (added,) = client.attribute_logits(one, (words[0], words[1]), mask=mask, ablate=ablate, **asked)
        written = out.write(LogitAttributions([added]), partial(save_attribution, added))
        print_result(added, attribution_document, print_attribution, json=call.json, written=written)
        return
    refuse({"--mask": mask, "--ablate": ablate}, "goes with --attribute")
    through = tuned.loaded()
    with to.connect(timeout) as client:
        found = client.read_layers(
            one,
            layers=layers,
            top_k=top_k,
            candidates=None if candidates is None else specifications.words("--candidates", candidates),
            all_pieces=all_pieces,
            normalisation=chosen,
            lens=through,
            **asked,
        )
    written = out.write(found, partial(save_lens, found[0]))

    def show(screen: Console, found: LensTexts) -> None:
        print_lens(screen, found[0])
        if tuned.lens is not None:
            said = printable(f"states before the last went through the maps of {tuned.lens} first")
            screen.print(said, style="dim", soft_wrap=True)

    print_result(found, answers_document, show, json=call.json, written=written)
