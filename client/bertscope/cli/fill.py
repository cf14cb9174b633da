"""`bertscope fill`: cloze queries."""

import dataclasses
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bertscope.cli import options
from bertscope.cli.intervention_options import InterventionOptions
from bertscope.cli.option_groups import grouped
from bertscope.cli.output import UsageError, bar, console, printable, probability, table
from bertscope.cli.server_options import ServerOptions
from bertscope.cli.text_arguments import answer_texts, provenance_once
from bertscope.results import FilledMask, FilledText, FilledTexts


@grouped
def fill(
    server: ServerOptions,
    base: InterventionOptions,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]...", help='Texts with "[MASK]"; "-" or none reads lines from stdin.'),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", min=1, help="How many predictions for each mask; 5 unless set.")
    ] = None,
    candidates: Annotated[
        str | None, typer.Option("--candidates", metavar="A,B", help="Score these words instead, with commas between.")
    ] = None,
    candidate: Annotated[
        list[str] | None, typer.Option("--candidate", metavar="A", help="Score this word instead. Repeatable.")
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Fill the masks of texts: "Paris is the capital of [MASK]."

    Many texts are answered in groups as they come; with --json, one that is refused means that none is printed.
    """
    words = _words(candidates)
    interventions, reference_texts = base.interventions(), base.reference_texts()
    with server.connect(timeout) as client:

        def ask(batch: tuple[str, ...]) -> FilledTexts:
            return client.fill_mask(
                batch,
                model=model,
                top_k=top_k,
                candidates=[*words, *(candidate or [])] or None,
                interventions=interventions,
                reference_texts=reference_texts,
                truncate=truncate,
            )

        answer_texts(texts, ask, show=partial(print_answer, console()), document=document if json else None)


def document(answers: list[FilledText]) -> dict[str, Any]:
    """The answers as JSON has them; the provenance, which they share, once."""
    return provenance_once([dataclasses.asdict(answer) for answer in answers])


def print_answer(screen: Console, answer: FilledText) -> None:
    """The text, and a table for each of its masks."""
    for index, mask in enumerate(answer.masks):
        title = printable(answer.text[: mask.start])
        title.append_text(Text(answer.text[mask.start : mask.end], style="bold reverse"))
        title.append_text(printable(answer.text[mask.end :]))
        if len(answer.masks) > 1:
            title.append(f"  (mask {index + 1} of {len(answer.masks)})", style="dim")
        screen.print(title)
        screen.print(_predictions(mask))
    if answer.truncated_tokens:
        screen.print(f"{answer.truncated_tokens} tokens were cut away", style="yellow")


def _predictions(mask: FilledMask) -> Any:
    among_candidates = any(prediction.candidate_probability is not None for prediction in mask.predictions)
    columns = ["rank#", "token", "probability#", "", *(["among candidates#"] if among_candidates else [])]
    result = table(columns)
    for prediction in mask.predictions:
        share = prediction.candidate_probability
        result.add_row(
            "" if prediction.rank is None else str(prediction.rank),
            printable(prediction.token),
            probability(prediction.probability),
            bar(prediction.probability if share is None else share),
            *([probability(share)] if share is not None else []),
        )
    return result


def _words(candidates: str | None) -> list[str]:
    if candidates is None:
        return []
    words = [word.strip() for word in candidates.split(",")]
    if not all(words):
        raise UsageError(f"--candidates {candidates!r}: a word is empty; write A,B")
    return words
