"""`bertscope attention --describe`: what heads attend to over many texts."""

from pathlib import Path
from typing import Any

from bertscope.questions.attention.description import description_columns, document
from bertscope.values.validation import TextOrPair

from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.describing import DescribeOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.description import print_description
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.attention_statistics import save_description


def describe_texts(
    server: ServerOptions,
    asked: DescribeOptions,
    source: Source[TextOrPair],
    plot: Path | None,
    call: CallOptions,
    **arguments: Any,
) -> None:
    """Describes heads over texts, prints the description, and writes the requested files."""
    out = OutputOptions(plot, asked.dark, asked.output)
    picture = asked.picture or "patterns"
    with server.connect(call.timeout) as client, source.some_left(), answering("describing") as show:
        found = client.describe_attention(
            source.items,
            punctuation=asked.punctuation or None,
            head_distances=asked.head_distances or picture == "clusters",
            on_progress=show,
            on_rejected=source.reject,
            **call.arguments(),
            **arguments,
        )
    written = out.write(description_columns(found), lambda path, dark: save_description(found, path, picture, dark=dark))
    print_result(found, document, print_description, json=call.json, written=written, source=source)
