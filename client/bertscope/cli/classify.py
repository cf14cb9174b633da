"""`bertscope classify`: what a fine-tuned model says texts are."""

import dataclasses
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from bertscope.classification import ClassifiedText, ClassifiedTexts
from bertscope.cli import options
from bertscope.cli.intervention_options import InterventionOptions
from bertscope.cli.option_groups import grouped
from bertscope.cli.output import UsageError, bar, console, printable, probability, table
from bertscope.cli.server_options import ServerOptions
from bertscope.cli.text_arguments import answer_texts, provenance_once


@grouped
def classify(
    server: ServerOptions,
    base: InterventionOptions,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help='Texts; "-" or none reads lines from stdin.')
    ] = None,
    pair: Annotated[
        str | None, typer.Option("--pair", "--text-pair", metavar="TEXT", help="A second text, read with the one TEXT.")
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Say which label a fine-tuned model gives to texts, and how likely each is.

    Many texts are answered in groups as they come; with --json, one that is refused means that none is printed.
    """
    if pair is not None and (len(texts or []) != 1 or texts == ["-"]):
        raise UsageError("--pair goes with exactly one TEXT")
    interventions, reference_texts = base.interventions(), base.reference_texts()
    with server.connect(timeout) as client:

        def ask(batch: tuple[str, ...]) -> ClassifiedTexts:
            return client.classify(
                list(batch) if pair is None else (batch[0], pair),
                model=model,
                interventions=interventions,
                reference_texts=reference_texts,
                truncate=truncate,
            )

        answer_texts(texts, ask, show=partial(print_answer, console()), document=document if json else None)


def document(answers: list[ClassifiedText]) -> dict[str, Any]:
    """The answers as JSON has them; the provenance, which they share, once."""
    return provenance_once([dataclasses.asdict(answer) | {"label": answer.label} for answer in answers])


def print_answer(screen: Console, answer: ClassifiedText) -> None:
    """The text, and a row for each label."""
    title = printable(answer.text)
    if answer.text_pair is not None:
        title.append(" / ", style="dim").append_text(printable(answer.text_pair))
    screen.print(title)
    result = table(["label", "probability#", "", "logit#"])
    for label in answer.labels:
        result.add_row(printable(label.label), probability(label.probability), bar(label.probability), f"{label.logit:.3f}")
    screen.print(result)
    if answer.truncated_tokens:
        screen.print(f"{answer.truncated_tokens} tokens were cut away", style="yellow")
