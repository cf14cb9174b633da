"""Say which label a fine-tuned model gives to texts, and how likely each is.

Many texts are answered in groups as they come; with --json, one that is refused means that none is printed. With --output,
a row for each text of a file is written as it comes, and --resume goes on with a file that was cut short.

Example:

  bertscope classify "A charming and often affecting journey." --model sst2
"""

from typing import Any

from bertscope import ClassifiedText
from bertscope.values.documents import document_of
from rich.console import Console

from bertscope_workbench.command.groups import offered
from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, PairArguments
from bertscope_workbench.command.views.output import print_cut, table, text_line


def classify(
    *,
    given: PairArguments,
    file: ItemFileOptions = offered(file='Classify a file: column "text", maybe "text_pair", or .txt.'),
    call: CallOptions,
    to: AskingOptions,
) -> None:
    def fields(answer: ClassifiedText) -> dict[str, Any]:
        return {**document_of(answer), "label": answer.label}

    asked = AskedItems(to, given, file, call)
    asked.answer("classifying", lambda client: client.classify_stream, print_answer, fields, truncate=call.truncate)


def print_answer(screen: Console, answer: ClassifiedText) -> None:
    """Prints the text, and a row for each label."""
    screen.print(text_line(answer.text, answer.text_pair))
    rows = ([one.label, one.probability, one.probability, one.logit] for one in answer.labels)
    screen.print(table(["label", "probability#p", "#bar", "logit#.3f"], rows))
    if answer.multi_label:
        screen.print("each label has its own probability; they do not sum to 1", style="dim")
    print_cut(screen, answer.truncated_tokens)
