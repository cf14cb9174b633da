"""`bertscope attention --describe`: what heads attend to over many texts."""

from pathlib import Path
from typing import Any

from bertscope._validation import TextOrPair
from bertscope.attention.description import description_columns, document
from bertscope.cli.options.describing import DescribeOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.sources import Source
from bertscope.cli.views import files as output_files
from bertscope.cli.views.description import print_description
from bertscope.cli.views.output import console, print_json
from bertscope.cli.views.progress import answering
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.attention_statistics import save_description


def describe_texts(
    server: ServerOptions,
    asked: DescribeOptions,
    source: Source[TextOrPair],
    plot: Path | None,
    timeout: float,
    *,
    json: bool,
    **arguments: Any,
) -> None:
    """Describes heads over texts, prints the description, and writes the requested files."""
    output_files.require_plot(plot)
    require_table(asked.output)
    picture = asked.picture or "patterns"
    with server.connect(timeout) as client, source.some_left(), answering("describing") as show:
        found = client.describe_attention(
            source.items,
            punctuation=asked.punctuation or None,
            head_distances=asked.head_distances or picture == "clusters",
            on_progress=show,
            on_rejected=source.reject,
            timeout=timeout,
            **arguments,
        )
    written = write_files(
        description_columns(found), asked.output, plot, lambda path: save_description(found, path, picture, dark=asked.dark)
    )
    if json:
        print_json(document(found) | {"left_out": source.left_out})
        return
    screen = console()
    source.print_left_out(screen)
    print_description(screen, found)
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)
