"""`bertscope score --rows`: a row for each text or pair of a file, as its scores come."""

from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bertscope import ScoredInput, ScoredText, Scoring

from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.items import ItemSource, RowOptions, write_rows
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.parts.score_pairs import PairOptions, print_comparison
from bertscope_workbench.command.views.output import UsageError, console
from bertscope_workbench.readers import files
from bertscope_workbench.readers.answer_rows import read_pair_rows
from bertscope_workbench.readers.files import ItemKind
from bertscope_workbench.readers.table_rows import Row


def score_rows(
    server: ServerOptions,
    source: Path | None,
    pairs: PairOptions,
    rows: RowOptions,
    names: tuple[str | None, int | None],
    **arguments: Any,
) -> None:
    """Writes a row for each text of --texts, or each pair of --pairs. `names` are the values of --columns and --limit."""
    model, timeout = arguments.pop("model"), arguments.pop("timeout")
    conditional, pieces = arguments.pop("conditional"), arguments.pop("pieces")
    path = pairs.pairs or source
    if path is None:
        raise UsageError("--rows goes with --texts FILE or --pairs FILE")
    if pairs.baseline:
        raise UsageError("--rows is of one model: leave --baseline out")
    if path.is_dir():
        raise UsageError(f"--rows takes one file of pairs at a time, and {path} is a folder")
    with server.connect(timeout) as client:
        if pairs.pairs is not None:
            compare = partial(client.compare_texts_stream, model=model)
            asked = {"critical_region": pairs.critical_region, **arguments}
            write_rows(ItemSource(path, files.PAIRS, *names), rows, compare, asked, "comparing")
            _print_accuracy(rows, pairs.group, names[0], arguments["scoring"])
            return

        def score(texts: Iterator[Any], *, conditional: bool, **more: Any) -> Generator[ScoredText, None, None]:
            return client.score_texts_stream(texts, model=model, **more)

        asked = {"conditional": conditional, "pieces": pieces, **arguments}
        kind: ItemKind[Any] = CONDITIONAL if conditional else files.INPUTS
        write_rows(ItemSource(path, kind, *names), rows, score, asked, "scoring")


def _print_accuracy(rows: RowOptions, groups: list[str] | None, columns: str | None, scoring: Scoring) -> None:
    """Prints the accuracies by group of all rows of a file, those of earlier runs too."""
    assert rows.rows is not None  # noqa: S101  # the command has seen to it
    named = specifications.columns("--columns", columns)
    found = read_pair_rows(rows.rows, groups, columns=named, scoring=scoring)
    if found.sets:
        print_comparison(console(), found, None)


def _from_bars(row: Row) -> ScoredInput:
    return ScoredInput.from_bars(files.TEXTS.item(row))


CONDITIONAL = ItemKind(("text",), (), _from_bars)
"""A text with bars around what is scored."""
