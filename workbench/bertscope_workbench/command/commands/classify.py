"""Say which label a fine-tuned model gives to texts, and how likely each is.

Many texts are answered in groups as they come; with --json, one that is refused means that none is printed. With --output,
a row for each text of a file is written as it comes, and --resume goes on with a file that was cut short.
"""

from typing import Annotated

from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, PairArguments
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.views.classification import fields, print_answer


@grouped
def classify(
    to: AskingOptions,
    given: PairArguments,
    file: Annotated[ItemFileOptions, Offered(file='Classify a file: column "text", maybe "text_pair", or .txt.')],
    call: CallOptions,
) -> None:
    asked = AskedItems(to, given, file, call)
    asked.answer("classifying", lambda client: client.classify_stream, print_answer, fields, truncate=call.truncate)
