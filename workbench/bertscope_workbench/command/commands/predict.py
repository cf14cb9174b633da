"""Give texts the value that a fine-tuned model predicts: a rating, the similarity of a pair, a relevance.

With --query, each text is a candidate that a cross-encoder reads with the query; the highest value comes first. Many texts
are answered in groups as they come; with --json, one that is refused means that none is printed. With --output, a row for
each text of a file is written as it comes, and --resume goes on with a file that was cut short.

Example:

  bertscope predict "A plane is taking off." --pair "An air plane is taking off." --model sts
"""

from bertscope import PredictedValue
from rich.console import Console
from rich.text import Text

from bertscope_workbench.analyses.ranking import RankedCandidates, rank_candidates
from bertscope_workbench.command.groups import option
from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, PairArguments
from bertscope_workbench.command.options.texts import answers_document
from bertscope_workbench.command.views.output import console, plural, print_cut, print_json, printable, text_line
from bertscope_workbench.command.views.result_tables import result_table


def predict(
    *,
    given: PairArguments,
    query: str | None = option(
        "--query TEXT", "Read each TEXT as a candidate for this query, and rank them.", without="pair rows"
    ),
    file: ItemFileOptions,
    call: CallOptions,
    to: AskingOptions,
) -> None:
    asked = AskedItems(to, given, file, call)
    if query is None:
        asked.answer("predicting", lambda client: client.predict_values_stream, print_value, truncate=call.truncate)
        return
    arguments = to.arguments()
    with to.connect(call.timeout) as client:
        candidates = [text for _, text in asked.read()]
        ranked = rank_candidates(client, query, candidates, model=call.model, truncate=call.truncate, **arguments)
    if call.json:
        print_json(answers_document(ranked) | {"query": query})
    else:
        print_ranking(console(), query, ranked)


def print_value(screen: Console, answer: PredictedValue) -> None:
    """Prints the value and its text or pair in a line."""
    screen.print(Text(f"{answer.value:10.4f}  ").append_text(text_line(answer.text, answer.text_pair)))
    print_cut(screen, answer.truncated_tokens)


def print_ranking(screen: Console, query: str, ranked: RankedCandidates) -> None:
    """Prints the query, and a row for each candidate, highest value first."""
    screen.print(printable(query))
    screen.print(result_table(ranked, ("rank", "value", "candidate")))
    cut = sum(one.truncated_tokens > 0 for one in ranked)
    if cut:
        screen.print(f"{plural(cut, 'pair')} cut to what the model reads", style="yellow")
