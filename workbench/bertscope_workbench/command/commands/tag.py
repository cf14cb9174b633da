"""Label the words of texts by a fine-tuned model: named entities, chunks, parts of speech.

Words whose labels make them one ("B-PER", "I-PER") are shown as one mention. Many texts are answered in groups as they
come; with --json, one that is refused means that none is printed. With --output, a row for each text of a file is written
as it comes, and --resume goes on with a file that was cut short.
"""

from functools import partial
from typing import Annotated

import typer

from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, TextArguments
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.views.tagging import print_tagged


@grouped
def tag(
    *,
    to: AskingOptions,
    given: TextArguments,
    file: Annotated[ItemFileOptions, Offered(file='Tag the texts of a file: column "text", maybe "text_pair", or .txt.')],
    words: Annotated[bool, typer.Option("--words", help="Print each word with its label, also outside mentions.")] = False,
    top_k: Annotated[
        int, typer.Option("--top-k", min=1, metavar="N", help="Labels of each word; more than 1 prints each word.")
    ] = 1,
    call: CallOptions,
) -> None:
    asked = AskedItems(to, given, file, call)
    show = partial(print_tagged, words=words or top_k > 1)
    asked.answer("tagging", lambda client: client.classify_tokens_stream, show, top_k=top_k, truncate=call.truncate)
