"""`bertscope attention --compare`: how differently the heads of two models attend."""

from pathlib import Path
from typing import Any

from bertscope._validation import TextOrPair
from bertscope.attention.comparison import comparison_columns, comparison_document
from bertscope.cli.options.describing import DescribeOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.sources import Source
from bertscope.cli.views import files as output_files
from bertscope.cli.views.comparison import print_comparison
from bertscope.cli.views.output import console, print_json
from bertscope.cli.views.progress import answering
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.comparison import save_comparison


def compare_texts(
    server: ServerOptions,
    asked: DescribeOptions,
    source: Source[TextOrPair],
    plot: Path | None,
    timeout: float,
    *,
    json: bool,
    **arguments: Any,
) -> None:
    """Compares heads over texts, prints the comparison, and writes the requested files."""
    asked.require_compare()
    output_files.require_plot(plot)
    require_table(asked.output)
    with server.connect(timeout) as client, source.some_left(), answering("comparing") as show:
        found = client.compare_attention(
            source.items,
            asked.compare,
            punctuation=asked.punctuation or None,
            on_progress=show,
            on_rejected=source.reject,
            timeout=timeout,
            **arguments,
        )
    written = write_files(
        comparison_columns(found), asked.output, plot, lambda path: save_comparison(found, path, dark=asked.dark)
    )
    if json:
        print_json(comparison_document(found) | {"left_out": source.left_out})
        return
    screen = console()
    source.print_left_out(screen)
    print_comparison(screen, found)
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)
