"""`bertscope relations`: how heads attend between linked words of a treebank, or to words with a feature."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bertscope.attention import span_files, treebanks
from bertscope.attention.feature_scores import feature_columns
from bertscope.attention.marked_texts import FeatureText, RelationText
from bertscope.attention.relation_scores import relation_columns
from bertscope.cli import options
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.sources import Source, source_of
from bertscope.cli.views import files as output_files
from bertscope.cli.views import relations as view
from bertscope.cli.views.output import UsageError, console, print_json
from bertscope.cli.views.progress import answering
from bertscope.cli.views.table_files import require_table, write_table
from bertscope.plots.relations import save_features, save_relations


@dataclass(frozen=True)
class OutputOptions:
    """The files to write, and how to print."""

    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None
    dark: Annotated[bool, typer.Option("--dark", help="Draw on a dark page.")] = False
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write every head's scores: .csv, .tsv, .jsonl or .parquet."),
    ] = None
    json: options.Json = False

    def require(self) -> None:
        """Rejects, before any call, files that could not be written after it."""
        output_files.require_plot(self.plot)
        require_table(self.output)

    def write(self, columns: dict[str, Any], save: Callable[[Path], None]) -> list[Path]:
        """Writes the table and the figure. Returns their paths."""
        if self.output is not None:
            write_table([*columns], zip(*columns.values(), strict=True), self.output)
        if self.plot is not None:
            output_files.draw(save, self.plot)
        return [path for path in (self.output, self.plot) if path is not None]


@grouped
def relations(
    server: ServerOptions,
    base: InterventionOptions,
    out: OutputOptions,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A treebank (.conllu), or texts with the places of words (.jsonl).")
    ],
    features: Annotated[bool, typer.Option("--features", help="Score words with a feature: nouns, subjects.")] = False,
    propbank: Annotated[bool, typer.Option("--propbank", help="The file has PropBank's roles: score those.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Score this relation or feature. Repeatable.")
    ] = None,
    no_subtypes: Annotated[bool, typer.Option("--no-subtypes", help="Take nsubj:pass for nsubj.")] = False,
    no_intervals: Annotated[bool, typer.Option("--no-intervals", help="Fewer bytes, and no intervals.")] = False,
    direction: Annotated[
        Literal["forward", "backward"] | None,
        typer.Option("--direction", help="From a word to what depends on it, or back; the better one unless set."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take the file's first N texts.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, metavar="N", help="Relations to show, those with most pairs.")] = 30,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
) -> None:
    """Show which heads attend between linked words (a verb and its subject), beside what fixed distances and chance find.

    With --features, which heads attend to words with a feature. Sentences that can't be read, or that the model can't read, are
    named and left out.
    """
    out.require()
    if features:
        unused = {
            "--propbank": propbank,
            "--no-subtypes": no_subtypes,
            "--no-intervals": no_intervals,
            "--direction": direction,
        }
        for option, given in unused.items():
            if given:
                raise UsageError(f"{option} does not go with --features")
        marked = feature_source(file, limit)
        with server.connect(timeout) as client, marked.some_left(), answering("scoring") as show:
            found = client.score_features(
                marked.items,
                only,
                model=model,
                interventions=base.interventions(),
                reference_texts=base.reference_texts(),
                on_progress=show,
                on_rejected=marked.reject,
                timeout=timeout,
            )
        written = out.write(feature_columns(found), lambda path: save_features(found, path, dark=out.dark))
        if out.json:
            print_json(view.features_document(found) | {"left_out": marked.left_out})
            return
        screen = console()
        marked.print_left_out(screen)
        view.print_features(screen, found)
    else:
        linked = relation_source(file, limit, propbank=propbank, subtypes=not no_subtypes)
        with server.connect(timeout) as client, linked.some_left(), answering("scoring") as show:
            scores = client.score_relations(
                linked.items,
                only,
                model=model,
                details=not no_intervals,
                interventions=base.interventions(),
                reference_texts=base.reference_texts(),
                on_progress=show,
                on_rejected=linked.reject,
                timeout=timeout,
            )
        written = out.write(relation_columns(scores), lambda path: save_relations(scores, path, direction, dark=out.dark))
        if out.json:
            print_json(view.document(scores, direction) | {"left_out": linked.left_out})
            return
        screen = console()
        linked.print_left_out(screen)
        view.print_relations(screen, scores, direction, top)
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)


def relation_source(path: Path, limit: int | None, *, propbank: bool, subtypes: bool) -> Source[RelationText]:
    """Returns the texts with linked words of a file."""
    if path.suffix.lower() in span_files.SUFFIXES:
        if propbank:
            raise UsageError("--propbank goes with a treebank")
        return source_of(path, lambda: span_files.read_relation_texts(path, limit=limit))
    if propbank:
        return source_of(path, lambda: treebanks.read_propbank(path, limit=limit))
    return source_of(path, lambda: treebanks.read_conllu(path, subtypes=subtypes, limit=limit))


def feature_source(path: Path, limit: int | None) -> Source[FeatureText]:
    """Returns the texts with marked words of a file."""
    if path.suffix.lower() in span_files.SUFFIXES:
        return source_of(path, lambda: span_files.read_feature_texts(path, limit=limit))
    return source_of(path, lambda: treebanks.read_conllu_features(path, limit=limit))
