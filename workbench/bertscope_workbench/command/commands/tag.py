"""Label the words of texts by a fine-tuned model: named entities, chunks, parts of speech.

Words whose labels make them one ("B-PER", "I-PER") are shown as one mention. Many texts are answered in groups as they
come; with --json, one that is refused means that none is printed. With --output, a row for each text of a file is written
as it comes, and --resume goes on with a file that was cut short.
"""

from functools import partial
from typing import Annotated

from bertscope import TaggedText
from rich.console import Console

from bertscope_workbench.command.groups import Offered, option
from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, TextArguments
from bertscope_workbench.command.views.output import bar, plural, printable, probability, table, text_line


def tag(
    *,
    to: AskingOptions,
    given: TextArguments,
    file: Annotated[ItemFileOptions, Offered(file='Tag the texts of a file: column "text", maybe "text_pair", or .txt.')],
    words: Annotated[bool, option("--words", "Print each word with its label, also outside mentions.")] = False,
    top_k: Annotated[int, option("--top-k N", "Labels of each word; more than 1 prints each word.", min=1)] = 1,
    call: CallOptions,
) -> None:
    asked = AskedItems(to, given, file, call)
    show = partial(print_tagged, words=words or top_k > 1)
    asked.answer("tagging", lambda client: client.classify_tokens_stream, show, top_k=top_k, truncate=call.truncate)


def print_tagged(screen: Console, answer: TaggedText, *, words: bool) -> None:
    """Prints the text, and a row for each mention; for each label of each word if `words`, or if labels make no mentions."""
    screen.print(text_line(answer.text, answer.text_pair))
    if words or answer.scheme == "none":
        _print_words(screen, answer)
    elif answer.mentions:
        result = table(["type", "mention", "place#", "probability#", ""])
        for one in answer.mentions:
            shown = f"{one.start}-{one.end}", probability(one.probability), bar(one.probability)
            result.add_row(printable(one.type), printable(one.text), *shown)
        screen.print(result)
    else:
        screen.print("no mention")
    if answer.truncated_tokens:
        screen.print(f"{plural(answer.truncated_tokens, 'token')} cut away", style="yellow")


def _print_words(screen: Console, answer: TaggedText) -> None:
    rows = (
        [printable("" if order else word.text), printable(one.label), probability(one.probability), bar(one.probability)]
        for word in answer.words
        for order, one in enumerate(word.labels)
    )
    screen.print(table(["word", "label", "probability#", ""], rows))
