"""Show which heads attend between linked words (a verb and its subject), beside what fixed distances and chance find.

Sentences that can't be read, or that the model can't read, are named and left out.

Examples:

  bertscope relations examples/sentences.conllu
  bertscope relations examples/sentences.conllu --only nsubj --output heads.csv
"""

import importlib.util
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import bertscope
from bertscope import BertscopeError, Client, FeatureText, RelationScores, RelationText
from bertscope.rpc.splitting import OnRejected
from rich.console import Console

from bertscope_workbench.analyses.trees import TreeScores, score_trees
from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import modes
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.models import Models, side_by_side
from bertscope_workbench.command.options.results import PrintedOutputOptions, SummaryOptions, print_result
from bertscope_workbench.command.options.sources import Source, source_of
from bertscope_workbench.command.views import relations as view
from bertscope_workbench.command.views.output import Failure, UsageError, console
from bertscope_workbench.command.views.progress import answering, steps
from bertscope_workbench.plots.relations import save_features, save_relations
from bertscope_workbench.plots.trees import save_trees
from bertscope_workbench.readers import span_files, treebanks

app = modes("relations", __doc__, features="features FILE", tree="trees FILE", by_head="trees FILE --by-head")

File = Annotated[Path, argument("FILE", "A treebank (.conllu), or texts with the places of words (.jsonl).")]
Only = Annotated[list[str] | None, option("--only NAME", "Score this relation or feature alone. Repeatable.")]
Limit = Annotated[int | None, option("--limit N", "Take the file's first N texts.", min=1)]
Control = Annotated[
    Literal["untrained"] | None,
    option("--control", "Ask a copy of the model with random weights, too; it is made for it, and unloaded then."),
]


@dataclass(frozen=True)
class LinkOptions:
    """The links to score, and how."""

    file: File
    propbank: bool = flag("--propbank", "The file has PropBank's roles: score those.")
    only: Only = None
    no_subtypes: bool = flag("--no-subtypes", "Take nsubj:pass for nsubj.")
    no_intervals: bool = flag("--no-intervals", "Fewer bytes, and no intervals.")
    direction: Literal["forward", "backward"] | None = option(
        "--direction", "From a word to what depends on it, or back; the better one unless set."
    )
    limit: Limit = None
    top: int = option("--top N", "Relations to show, those with most pairs.", default=30, min=1)

    def source(self, path: Path, limit: int | None = None) -> Source[RelationText]:
        """Returns the texts with linked words of a file."""
        return relation_source(path, limit, propbank=self.propbank, subtypes=not self.no_subtypes)


@app.command("heads", help=__doc__)
def heads(
    *,
    asked: LinkOptions,
    select: Path | None = option(
        "--select FILE", "Choose heads on this file's texts; on every second text of FILE unless set."
    ),
    control: Control = None,
    out: PrintedOutputOptions = offered(output="Write every head's scores: .csv, .tsv, .jsonl, .parquet, .tex."),
    summary: SummaryOptions,
    call: options.CallOptions = offered("model", "timeout"),
    to: ModelOptions,
) -> None:
    source = asked.source(asked.file, asked.limit)
    others = None if select is None else asked.source(select)
    chosen: view.Select = "half"
    untrained, stopped = None, None
    direction, arguments = asked.direction, to.arguments() | {"model": call.model, "timeout": call.timeout}
    with to.connect(call.timeout) as client:
        try:
            found = scores_of(client, source, asked, **arguments)
        except BertscopeError as error:
            if not isinstance(error.partial, RelationScores):
                raise
            found, stopped = error.partial, error
        if others is not None and stopped is None:
            chosen = scores_of(client, others, asked, **arguments | {"details": False})
        if control and stopped is None:
            with untrained_copy(client, call.model) as copy:
                untrained = scores_of(client, source, asked, lambda *_: None, **arguments | {"model": copy})
    written = out.write(
        found.columns(),
        lambda path, **look: save_relations(found, path, direction, select=chosen, **look),
        partial=stopped is not None,
    )
    written += summary.write(found.best_heads(direction, select=chosen), partial=stopped is not None)
    if others is not None:
        if not out.json:
            others.print_left_out(console())
        source.left_out += others.left_out if out.json else []
    print_result(
        found,
        lambda found: view.document(found, direction, chosen, untrained),
        lambda screen, found: view.print_relations(screen, found, direction, asked.top, chosen, untrained),
        json=out.json,
        written=written,
        source=source,
    )
    if stopped is not None:
        print_stopped(stopped, len(source.items))
        raise stopped


@contextmanager
def untrained_copy(client: Client, model: str | None) -> Iterator[str]:
    """Yields the name of a copy of a model with random weights, which the server makes, and unloads at the end."""
    with steps("making an untrained model") as show:
        made = client.compress_model(f"untrained-{secrets.token_hex(4)}", bertscope.untrained(), model=model, on_progress=show)
    try:
        yield made.name
    finally:
        client.unload_model(made)


@app.command("models")
def models(
    *,
    asked: LinkOptions,
    models: Models,
    out: PrintedOutputOptions = offered("output", "json"),
    summary: SummaryOptions,
    call: options.CallOptions = offered("timeout"),
    to: ModelOptions,
) -> None:
    """Score relations by several models, of any shapes, each on the texts that it reads, and show their best heads.

    Example:

      bertscope relations models examples/sentences.conllu --model a --model b
    """
    source, direction = asked.source(asked.file, asked.limit), asked.direction
    with to.connect(call.timeout) as client:
        each = {"timeout": call.timeout, **to.arguments()}
        found = {model: scores_of(client, source, asked, model=model, **each) for model in models}
    best = {model: scores.best_heads(direction) for model, scores in found.items()}
    written = out.write(side_by_side({model: scores.columns() for model, scores in found.items()}))
    written += summary.write(side_by_side({model: heads.columns() for model, heads in best.items()}))
    print_result(
        best,
        lambda _: {"models": [view.document(scores, direction) for scores in found.values()]},
        lambda screen, best: view.print_models(screen, best, asked.top),
        json=out.json,
        written=written,
        source=source,
    )


def scores_of(
    client: Client,
    source: Source[RelationText],
    asked: LinkOptions,
    reject: OnRejected | None = None,
    **arguments: Any,
) -> RelationScores:
    """Returns the scores of the texts of a file, showing the progress; `reject` gets texts that the server rejects, which the
    source notes unless it is given."""
    with source.some_left(), answering("scoring") as show:
        arguments = {"details": not asked.no_intervals, "on_rejected": reject or source.reject, **arguments}
        return client.score_relations(source.items, asked.only, on_progress=show, **arguments)


@app.command("features")
def features(
    *,
    file: File,
    only: Only = None,
    limit: Limit = None,
    out: PrintedOutputOptions = offered(output="Write every head's scores: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.CallOptions = offered("model", "timeout"),
    to: ModelOptions,
) -> None:
    """Show which heads attend most to words with a feature: nouns, subjects.

    Example:

      bertscope relations features examples/sentences.conllu --plot features.png
    """
    source, arguments = feature_source(file, limit), to.arguments() | {"model": call.model, "timeout": call.timeout}
    with to.connect(call.timeout) as client, source.some_left(), answering("scoring") as show:
        found = client.score_features(source.items, only, on_progress=show, on_rejected=source.reject, **arguments)
    written = out.write(found, partial(save_features, found))
    print_result(found, view.features_document, view.print_features, json=out.json, written=written, source=source)


@app.command("trees")
def trees(
    *,
    file: File,
    by_head: bool = flag("--by-head", "A tree for each head; takes longer."),
    limit: Limit = None,
    out: PrintedOutputOptions = offered(output="Write every tree's scores: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.LongCallOptions = offered("model", "timeout", timeout="How long the whole may take; no limit unless set."),
    to: ModelOptions,
) -> None:
    """Count how many words depend on the same words in a map's maximum spanning tree, beside trees that branch to one side.

    Example:

      bertscope relations trees examples/sentences.conllu --by-head --plot trees.png
    """
    if importlib.util.find_spec("networkx") is None:
        raise Failure("trees need networkx: pip install networkx")
    source, arguments = relation_source(file, limit), to.arguments() | {"model": call.model, "timeout": call.timeout}
    with to.connect(call.timeout) as client, source.some_left():
        with answering("scoring") as show:
            found = score_trees(client, source.items, by_head=by_head, on_progress=show, on_rejected=source.reject, **arguments)
        # The texts that it rejects are those that are named already.
        heads = client.score_relations(source.items, on_rejected=lambda *_: None, **arguments)
    written = out.write(found, partial(save_trees, found))
    combined = {"best_heads": view.combined_document(heads)}

    def show_all(screen: Console, found: TreeScores) -> None:
        view.print_trees(screen, found)
        view.print_combined(screen, heads)

    print_result(
        found,
        lambda found: view.trees_document(found) | combined,
        show_all,
        json=out.json,
        written=written,
        source=source,
    )


def print_stopped(error: BertscopeError, texts: int) -> None:
    """Prints how many texts the numbers are of, if an error ended the calls before all were answered."""
    console(stderr=True).print(f"cut short: the numbers are of the first {error.answered} of {texts} texts", style="yellow")


def relation_source(path: Path, limit: int | None, *, propbank: bool = False, subtypes: bool = True) -> Source[RelationText]:
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
