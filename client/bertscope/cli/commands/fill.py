"""`bertscope fill`: cloze queries."""

from collections.abc import Generator, Iterator
from functools import partial
from typing import Annotated, Literal, get_args

import typer

from bertscope.choices import Decoding
from bertscope.cli import options
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.texts import answer_texts
from bertscope.cli.views.cloze import document, print_answer
from bertscope.cli.views.output import UsageError, console
from bertscope.cloze import FilledText

DECODINGS: dict[str, Decoding] = {name.replace("_", "-"): name for name in get_args(Decoding)}


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
    decoding: Annotated[
        Literal["independent", "left-to-right", "confidence-first", "beam"] | None,
        typer.Option("--decoding", help="How several masks are filled: each alone (independent, unless set), or jointly."),
    ] = None,
    beam_width: Annotated[
        int | None, typer.Option("--beam-width", min=1, help="How many partial fillings a beam keeps; 5 unless set.")
    ] = None,
    max_pieces: Annotated[
        int | None,
        typer.Option("--max-pieces", min=1, help="A mask stands for 1 to so many pieces; by a beam unless --decoding is set."),
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

        def ask(asked: Iterator[str]) -> Generator[FilledText, None, None]:
            return client.fill_mask_stream(
                asked,
                model=model,
                top_k=top_k,
                candidates=[*words, *(candidate or [])] or None,
                interventions=interventions,
                reference_texts=reference_texts,
                truncate=truncate,
                decoding=None if decoding is None else DECODINGS[decoding],
                beam_width=beam_width,
                max_pieces=max_pieces,
            )

        answer_texts(texts, ask, show=partial(print_answer, console()), document=document if json else None)


def _words(candidates: str | None) -> list[str]:
    if candidates is None:
        return []
    words = [word.strip() for word in candidates.split(",")]
    if not all(words):
        raise UsageError(f"--candidates {candidates!r}: a word is empty; write A,B")
    return words
