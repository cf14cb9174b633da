"""`bertscope fill`: cloze queries."""

from collections.abc import Generator, Iterator
from functools import partial
from itertools import chain, tee
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from bertscope import files
from bertscope._validation import TextOrPair
from bertscope.choices import Decoding
from bertscope.cli import options
from bertscope.cli.options import specifications
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.items import ItemOptions, ItemSource, check_file, write_rows
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.texts import answer_texts
from bertscope.cli.views.cloze import document, print_answer
from bertscope.cli.views.output import UsageError, console
from bertscope.client import Client
from bertscope.cloze import FilledText
from bertscope.errors import invalid_argument

DECODINGS: dict[str, Decoding] = {name.replace("_", "-"): name for name in get_args(Decoding)}


@grouped
def fill(
    server: ServerOptions,
    base: InterventionOptions,
    out: ItemOptions,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]...", help='Texts with "[MASK]"; "-" or none reads lines from stdin.'),
    ] = None,
    pair: Annotated[
        str | None, typer.Option("--pair", "--text-pair", metavar="TEXT", help="A second text, read with the one TEXT.")
    ] = None,
    next_sentence: Annotated[
        bool, typer.Option("--next-sentence", help="Also say how likely the second text follows; needs no mask.")
    ] = False,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", min=1, help="How many predictions for each mask; 5 unless set.")
    ] = None,
    candidates: Annotated[
        str | None, typer.Option("--candidates", metavar="A,B", help="Score these words instead, with commas between.")
    ] = None,
    candidate: Annotated[
        list[str] | None, typer.Option("--candidate", metavar="A", help="Score this word instead. Repeatable.")
    ] = None,
    candidates_per_text: Annotated[
        bool,
        typer.Option("--candidates-per-text", help="Each TEXT or line ends with a tab and its own candidates: TEXT<tab>A,B."),
    ] = False,
    piece_id: Annotated[
        list[int] | None,
        typer.Option("--piece-id", min=0, metavar="ID", help="Score this vocabulary entry instead, by its index. Repeatable."),
    ] = None,
    logits: Annotated[bool, typer.Option("--logits", help="Also give scores before the softmax.")] = False,
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
    file: Annotated[
        Path | None,
        typer.Option("--texts", metavar="FILE", help='Fill the masks of a file: column "text", maybe "text_pair", or .txt.'),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="NAME=COLUMN,...", help="What the file calls them: text=sentence1.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take the first N of the file.")] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Fill the masks of texts: "Paris is the capital of [MASK]."

    Many texts are answered in groups as they come; with --json, one that is refused means that none is printed. With --output,
    a row for each text of a file is written as it comes, and --resume goes on with a file that was cut short.
    """
    out.require()
    if pair is not None and (len(texts or []) != 1 or texts == ["-"]):
        raise UsageError("--pair goes with exactly one TEXT")
    if next_sentence and pair is None and file is None:
        raise UsageError("--next-sentence goes with --pair TEXT, or --texts FILE with a column text_pair")
    words = [] if candidates is None else specifications.words("--candidates", candidates)
    asked: dict[str, Any] = {
        "top_k": top_k,
        "candidates": [*words, *(candidate or [])] or None,
        "interventions": base.interventions(),
        "reference_texts": base.reference_texts(),
        "truncate": truncate,
        "decoding": None if decoding is None else DECODINGS[decoding],
        "beam_width": beam_width,
        "max_pieces": max_pieces,
        "piece_ids": piece_id or None,
        "logits": logits,
        "next_sentence": next_sentence,
    }
    given = {"--columns": columns, "--limit": limit}
    check_file(file, out, given, alone=None if not (texts or json) else "TEXT" if texts else "--json")
    with server.connect(timeout) as client:
        if file is not None:
            if candidates_per_text:
                raise UsageError(
                    "--candidates-per-text reads candidates from TEXT or lines; leave --texts out, and pipe them in"
                )
            ask_model = partial(fill_mask_stream, client, model=model)
            write_rows(ItemSource(file, files.INPUTS, columns, limit), out, ask_model, asked, "filling")
            return

        def ask(lines: Iterator[str]) -> Generator[FilledText, None, None]:
            pairs = None if pair is None else [pair]
            if not candidates_per_text:
                return client.fill_mask_stream(lines if pair is None else [*lines], model=model, text_pairs=pairs, **asked)
            first, second = tee(map(_split, lines))
            lists, own_texts = (own for _, own in second), (text for text, _ in first)
            return client.fill_mask_stream(own_texts, model=model, text_pairs=pairs, candidates_per_text=lists, **asked)

        answer_texts(texts, ask, show=partial(print_answer, console()), document=document if json else None)


def fill_mask_stream(client: Client, items: Iterator[TextOrPair], **asked: Any) -> Generator[FilledText, None, None]:
    """Asks as the client's method, whose name it has in files of rows, about texts, or about pairs."""
    first = next(items)
    paired = not isinstance(first, str)

    def alike() -> Iterator[tuple[str, str]]:
        for index, item in enumerate(chain([first], items)):
            if isinstance(item, str) is paired:
                raise invalid_argument(f"texts[{index}]", "has no text_pair, or alone has one; give all lines one, or none")
            yield (item, "") if isinstance(item, str) else item

    one, other = tee(alike())
    pairs = (pair for _, pair in other) if paired else None
    yield from client.fill_mask_stream((text for text, _ in one), text_pairs=pairs, **asked)


def _split(line: str) -> tuple[str, list[str]]:
    """Returns a text and its own candidates."""
    text, tab, candidates = line.rpartition("\t")
    if not tab:
        raise UsageError(f"{line!r} has no tab; with --candidates-per-text, write TEXT<tab>A,B")
    return text, specifications.words("", candidates)
