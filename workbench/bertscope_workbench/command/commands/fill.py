"""Fill the masks of texts: "Paris is the capital of [MASK]."

Many texts are answered in groups as they come; with --json, one that is refused means that none is printed. With --output,
a row for each text of a file is written as it comes, and --resume goes on with a file that was cut short.

Examples:

  bertscope fill "Paris is the capital of [MASK]." --top-k 3
  bertscope fill --texts examples/capitals.tsv --output filled.csv
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, tee
from typing import TYPE_CHECKING, Any

from bertscope import Decoding, FilledText
from bertscope.errors import invalid_argument
from bertscope.values.validation import TextOrPair

from bertscope_workbench.command.groups import flag, offered, option, read
from bertscope_workbench.command.options import CallOptions, specifications
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, Numbered, PairArguments
from bertscope_workbench.command.views.cloze import print_answer
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.readers import files

if TYPE_CHECKING:
    from bertscope import Client


@dataclass(frozen=True)
class _WithCandidates:
    """Texts of the command line or of stdin that end with their own candidates."""

    given: PairArguments

    def items(self) -> Numbered:
        """Yields the texts, or the pair, each with its candidates."""
        for line, item in self.given.items():
            text, words = _split(item if self.given.pair is None else item[0])
            yield line, (text if self.given.pair is None else (text, self.given.pair), words)


def fill(
    *,
    given: PairArguments = offered(texts='Texts with "[MASK]"; "-" or none reads lines from stdin.'),
    next_sentence: bool = flag(
        "--next-sentence", "Also say how likely the second text follows; needs no mask.", needs="pair file"
    ),
    top_k: int | None = option("--top-k, -k", "How many predictions for each mask; 5 unless set.", min=1),
    candidates: list[str] | None = option(
        "--candidates A,B", "Score these words instead, with commas between.", reads=specifications.words
    ),
    candidate: list[str] | None = option("--candidate A", "Score this word instead. Repeatable."),
    candidates_per_text: bool = flag(
        "--candidates-per-text",
        'Each TEXT or line ends with its own candidates, TEXT<tab>A,B; a file has a column "candidates", A|B.',
    ),
    piece_id: list[int] | None = option(
        "--piece-id ID", "Score this vocabulary entry instead, by its index. Repeatable.", min=0
    ),
    logits: bool = flag("--logits", "Also give scores before the softmax."),
    decoding: Decoding | None = option(
        "--decoding", "How several masks are filled: each alone (independent, unless set), or jointly.", dashed=True
    ),
    beam_width: int | None = option("--beam-width", "How many partial fillings a beam keeps; 5 unless set.", min=1),
    max_pieces: int | None = option(
        "--max-pieces", "A mask stands for 1 to so many pieces; by a beam unless --decoding is set.", min=1
    ),
    file: ItemFileOptions = offered(file='Fill the masks of a file: column "text", maybe "text_pair", or .txt.'),
    call: CallOptions,
    to: AskingOptions,
) -> None:
    asked = (
        AskedItems(to, _WithCandidates(given), file, call, files.CANDIDATES)
        if candidates_per_text
        else AskedItems(to, given, file, call)
    )
    asked.answer(
        "filling",
        lambda client: partial(fill_mask, client),
        print_answer,
        top_k=top_k,
        candidates=[*(candidates or []), *(candidate or [])] or None,
        truncate=call.truncate,
        decoding=decoding,
        beam_width=beam_width,
        max_pieces=max_pieces,
        piece_ids=piece_id or None,
        logits=logits,
        next_sentence=next_sentence,
        candidates_per_text=candidates_per_text,
    )


def fill_mask(
    client: "Client", items: Iterator[Any], *, candidates_per_text: bool, **asked: Any
) -> Generator[FilledText, None, None]:
    """Asks as the client's method, whose name it has in files of rows, about texts, or about pairs; with `candidates_per_text`
    each comes with its own candidates."""
    given: Iterator[tuple[TextOrPair, Sequence[str]]] = items if candidates_per_text else ((item, ()) for item in items)
    first = next(given)
    paired = not isinstance(first[0], str)

    def alike() -> Iterator[tuple[str, str, Sequence[str]]]:
        for index, (item, words) in enumerate(chain([first], given)):
            if isinstance(item, str) is paired:
                raise invalid_argument(f"texts[{index}]", "has no text_pair, or alone has one; give all lines one, or none")
            yield (item, "", words) if isinstance(item, str) else (*item, words)

    every = tee(alike(), 1 + paired + candidates_per_text)  # One that nobody reads would keep all texts.
    pairs = (pair for _, pair, _ in every[1]) if paired else None
    lists = (words for _, _, words in every[-1]) if candidates_per_text else None
    texts = (text for text, _, _ in every[0])
    yield from client.fill_mask_stream(texts, text_pairs=pairs, candidates_per_text=lists, **asked)


def _split(line: str) -> tuple[str, list[str]]:
    """Returns a text and its own candidates."""
    text, tab, candidates = line.rpartition("\t")
    if not tab:
        raise UsageError(f"{line!r} has no tab; with --candidates-per-text, write TEXT<tab>A,B")
    return text, read("", specifications.words, candidates)
