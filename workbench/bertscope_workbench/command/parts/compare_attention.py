"""`bertscope attention --compare`: how differently the heads of two models attend."""

from functools import partial
from pathlib import Path
from typing import Any

from bertscope.questions.attention.comparison import comparison_columns, comparison_document
from bertscope.values.validation import TextOrPair

from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.describing import DescribeOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.comparison import print_comparison
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.comparison import save_comparison


def compare_texts(
    server: ServerOptions,
    asked: DescribeOptions,
    source: Source[TextOrPair],
    plot: Path | None,
    call: CallOptions,
    **arguments: Any,
) -> None:
    """Compares heads over texts, prints the comparison, and writes the requested files."""
    asked.require_compare()
    out = OutputOptions(plot, asked.dark, asked.output)
    with server.connect(call.timeout) as client, source.some_left(), answering("comparing") as show:
        found = client.compare_attention(
            source.items,
            asked.compare,
            punctuation=asked.punctuation or None,
            on_progress=show,
            on_rejected=source.reject,
            **call.arguments(),
            **arguments,
        )
    written = out.write(comparison_columns(found), partial(save_comparison, found))
    print_result(found, comparison_document, print_comparison, json=call.json, written=written, source=source)
