"""Label the words of texts by a fine-tuned model: named entities, chunks, parts of speech.

Words whose labels make them one ("B-PER", "I-PER") are shown as one mention. Many texts are answered in groups as they
come; with --json, one that is refused means that none is printed. With --output, a row for each text of a file is written
as it comes, and --resume goes on with a file that was cut short.

Example:

  bertscope tag "Ada Lovelace lived in London." --model ner
"""

from functools import partial

from bertscope import TaggedText
from rich.console import Console

from bertscope_workbench.command.groups import flag, offered, option
from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, TextArguments
from bertscope_workbench.command.views.output import print_cut, table, text_line


def tag(
    *,
    given: TextArguments,
    file: ItemFileOptions = offered(file='Tag the texts of a file: column "text", maybe "text_pair", or .txt.'),
    words: bool = flag("--words", "Print each word with its label, also outside mentions."),
    top_k: int = option("--top-k N", "Labels of each word; more than 1 prints each word.", default=1, min=1),
    call: CallOptions,
    to: AskingOptions,
) -> None:
    asked = AskedItems(to, given, file, call)
    show = partial(print_tagged, words=words or top_k > 1)
    asked.answer("tagging", lambda client: client.classify_tokens_stream, show, top_k=top_k, truncate=call.truncate)


def print_tagged(screen: Console, answer: TaggedText, *, words: bool) -> None:
    """Prints the text, and a row for each mention; for each label of each word if `words`, or if labels make no mentions."""
    screen.print(text_line(answer.text, answer.text_pair))
    if words or answer.scheme == "none":
        labels = [(place, word.text, one) for word in answer.words for place, one in enumerate(word.labels)]
        every = (["" if place else text, one.label, *[one.probability] * 2] for place, text, one in labels)
        screen.print(table(["word", "label", "probability#p", "#bar"], every))
    elif answer.mentions:
        rows = ([one.type, one.text, f"{one.start}-{one.end}", *[one.probability] * 2] for one in answer.mentions)
        screen.print(table(["type", "mention", "place#", "probability#p", "#bar"], rows))
    else:
        screen.print("no mention")
    print_cut(screen, answer.truncated_tokens)
