"""Give texts or pairs the value that a fine-tuned model predicts: a rating, the similarity of a pair, a relevance.

With --query, each text is a candidate that a cross-encoder reads with the query; the highest value comes first. Many texts
are answered in groups as they come; with --json, one that is refused means that none is printed. With --output, a row for
each text of a file is written as it comes, and --resume goes on with a file that was cut short.
"""

from typing import Annotated

import typer

from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, PairArguments
from bertscope_workbench.command.options.groups import grouped
from bertscope_workbench.command.options.texts import answers_document
from bertscope_workbench.command.views.output import UsageError, console, print_json
from bertscope_workbench.command.views.regression import print_ranking, print_value


@grouped
def predict(
    *,
    to: AskingOptions,
    given: PairArguments,
    query: Annotated[
        str | None, typer.Option("--query", metavar="TEXT", help="Read each TEXT as a candidate for this query, and rank them.")
    ] = None,
    file: ItemFileOptions,
    call: CallOptions,
) -> None:
    if query is not None and (given.pair is not None or to.rows is not None):
        raise UsageError("--query goes with neither --pair nor --output")
    asked = AskedItems(to, given, file, call)
    if query is None:
        asked.answer("predicting", lambda client: client.predict_values_stream, print_value, truncate=call.truncate)
        return
    arguments = to.arguments()
    with to.connect(call.timeout) as client:
        candidates = [text for _, text in asked.read()]
        ranked = client.rank_candidates(query, candidates, model=call.model, truncate=call.truncate, **arguments)
    if call.json:
        print_json(answers_document(ranked) | {"query": query})
    else:
        print_ranking(console(), query, ranked)
