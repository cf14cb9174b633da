"""Make one vector of each text, as the model's folder declares for sentence-transformers, or by another pooling.

With --output, a row for each text of a file is written as it comes, its vector a list of numbers, and --resume goes on
with a file that was cut short.

Examples:

  bertscope embed "The cat sat." "A dog barked." --normalize
  bertscope embed --texts examples/sentences.txt --output vectors.jsonl
"""

from bertscope import EmbeddedText
from rich.console import Console

from bertscope_workbench.command.groups import offered, option
from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, PairArguments
from bertscope_workbench.command.views.output import print_cut, text_line

SHOWN = 6
"""Numbers of a vector that are printed; --json and --output have all."""


def embed(
    *,
    given: PairArguments,
    file: ItemFileOptions = offered(file='Make vectors of a file: column "text", maybe "text_pair", or .txt.'),
    call: CallOptions,
    pooling: str | None = option("--pooling HOW", "declared, mean, first, last or max; declared if it is."),
    normalize: bool | None = option("--normalize/--no-normalize", "Divide vectors by their length; as declared unless set."),
    to: AskingOptions,
) -> None:
    asked = AskedItems(to, given, file, call)
    own = {"pooling": pooling, "normalize": normalize, "truncate": call.truncate}
    asked.answer("embedding", lambda client: client.embed_texts_stream, print_answer, **own)


def print_answer(screen: Console, answer: EmbeddedText) -> None:
    """Prints the text, and the size and the first numbers of its vector."""
    screen.print(text_line(answer.text, answer.text_pair))
    numbers = "  ".join(f"{value:.4f}" for value in answer.vector[:SHOWN])
    more = " ..." if len(answer.vector) > SHOWN else ""
    screen.print(f"  {numbers}{more}")
    kind = f"{answer.pooling}, normalized" if answer.normalized else answer.pooling
    screen.print(f"  {len(answer.vector)} numbers, {kind}", style="dim")
    print_cut(screen, answer.truncated_tokens)
