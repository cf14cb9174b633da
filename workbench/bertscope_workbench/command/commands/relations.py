"""Show which heads attend between linked words (a verb and its subject), beside what fixed distances and chance find.

With --features, which heads attend to words with a feature; with --tree, how many words depend on the same words in a map's
maximum spanning tree. Sentences that can't be read, or that the model can't read, are
named and left out.
"""

import importlib.util
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from bertscope import BertscopeError, Client, Direction, FeatureText, RelationScores, RelationText
from bertscope.rpc.splitting import OnRejected
from rich.console import Console

from bertscope_workbench.analyses.trees import TreeScores, score_trees
from bertscope_workbench.command import options
from bertscope_workbench.command.groups import Offered, argument, option, refuse
from bertscope_workbench.command.options.control import Control, untrained_copy
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.models import Models, one_model, side_by_side
from bertscope_workbench.command.options.results import PrintedOutputOptions, SummaryOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source, source_of
from bertscope_workbench.command.views import relations as view
from bertscope_workbench.command.views.output import Failure, UsageError, console
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.relations import save_features, save_relations
from bertscope_workbench.plots.trees import save_trees
from bertscope_workbench.readers import span_files, treebanks


def relations(
    *,
    to: ModelOptions,
    out: Annotated[
        PrintedOutputOptions,
        Offered(dark="Draw on a dark page.", output="Write every head's scores: .csv, .tsv, .jsonl, .parquet, .tex."),
    ],
    summary: SummaryOptions,
    file: Annotated[Path, argument("FILE", "A treebank (.conllu), or texts with the places of words (.jsonl).")],
    features: Annotated[bool, option("--features", "Score words with a feature: nouns, subjects.")] = False,
    tree: Annotated[bool, option("--tree", "Score the trees of maps: one for each layer.")] = False,
    by_head: Annotated[bool, option("--by-head", "With --tree: a tree for each head; takes longer.")] = False,
    propbank: Annotated[bool, option("--propbank", "The file has PropBank's roles: score those.")] = False,
    only: Annotated[list[str] | None, option("--only NAME", "Score this relation or feature. Repeatable.")] = None,
    no_subtypes: Annotated[bool, option("--no-subtypes", "Take nsubj:pass for nsubj.")] = False,
    no_intervals: Annotated[bool, option("--no-intervals", "Fewer bytes, and no intervals.")] = False,
    direction: Annotated[
        Literal["forward", "backward"] | None,
        option("--direction", "From a word to what depends on it, or back; the better one unless set."),
    ] = None,
    select: Annotated[
        Path | None, option("--select FILE", "Choose heads on this file's texts; on every second text of FILE unless set.")
    ] = None,
    control: Control = None,
    limit: Annotated[int | None, option("--limit N", "Take the file's first N texts.", min=1)] = None,
    top: Annotated[int, option("--top N", "Relations to show, those with most pairs.", min=1)] = 30,
    call: Annotated[
        options.LongCallOptions,
        Offered("timeout", timeout="How long an answer may take, 60 unless set; with --tree, the whole."),
    ],
    model: Models = None,
) -> None:
    choices: Mapping[str, object] = {
        "--only": only,
        "--propbank": propbank,
        "--no-subtypes": no_subtypes,
        "--no-intervals": no_intervals,
        "--direction": direction,
        "--by-head": by_head,
        "--features": features,
        "--select": select,
        "--control": control,
        "--summary": summary.summary,
    }
    kind = "--tree" if tree else "--features" if features else ""
    unused = {name: given for name, given in choices.items() if name in UNUSED[kind]}
    refuse(unused, f"does not go with {kind}" if kind else "goes with --tree")
    several = {"features": features, "tree": tree, "control": control, "select": select, "plot": out.plot}
    arguments = to.arguments() | {"model": one_model(model, **several), "timeout": call.timeout}
    if tree:
        show_trees(to, out, relation_source(file, limit), by_head=by_head, **arguments)
    elif features:
        score_features(to, out, feature_source(file, limit), only, **arguments)
    else:
        linked = relation_source(file, limit, propbank=propbank, subtypes=not no_subtypes)
        others = None if select is None else relation_source(select, None, propbank=propbank, subtypes=not no_subtypes)
        arguments["details"] = not no_intervals
        if model is not None and len(model) > 1:
            compare_models(to, out, summary, linked, only, direction, top, model, **arguments)
            return
        score_relations(to, out, summary, linked, others, only, direction, top, control, **arguments)


UNUSED: Mapping[str, tuple[str, ...]] = {
    "": ("--by-head",),
    "--features": (
        "--propbank",
        "--no-subtypes",
        "--no-intervals",
        "--direction",
        "--by-head",
        "--select",
        "--control",
        "--summary",
    ),
    "--tree": (
        "--features",
        "--only",
        "--propbank",
        "--no-subtypes",
        "--no-intervals",
        "--direction",
        "--select",
        "--control",
        "--summary",
    ),
}
"""The options that mean nothing to a kind of scores."""


def score_relations(
    server: ServerOptions,
    out: PrintedOutputOptions,
    summary: SummaryOptions,
    source: Source[RelationText],
    others: Source[RelationText] | None,
    only: list[str] | None,
    direction: Direction | None,
    top: int,
    control: str | None,
    **arguments: Any,
) -> None:
    """Scores relations, and shows their best heads: chosen on other texts, or on a half of these; beside those of an untrained
    model with a `control`."""
    select: view.Select = "half"
    untrained, stopped = None, None
    with server.connect(arguments["timeout"]) as client:
        try:
            found = scores_of(client, source, only, **arguments)
        except BertscopeError as error:
            if not isinstance(error.partial, RelationScores):
                raise
            found, stopped = error.partial, error
        if others is not None and stopped is None:
            select = scores_of(client, others, only, **arguments | {"details": False})
        if control and stopped is None:
            with untrained_copy(client, arguments["model"]) as copy:
                untrained = scores_of(client, source, only, lambda *_: None, **arguments | {"model": copy})
    written = out.write(
        found.columns(),
        lambda path, **look: save_relations(found, path, direction, select=select, **look),
        partial=stopped is not None,
    )
    written += summary.write(found.best_heads(direction, select=select), partial=stopped is not None)
    if others is not None:
        if not out.json:
            others.print_left_out(console())
        source.left_out += others.left_out if out.json else []
    print_result(
        found,
        lambda found: view.document(found, direction, select, untrained),
        lambda screen, found: view.print_relations(screen, found, direction, top, select, untrained),
        json=out.json,
        written=written,
        source=source,
    )
    if stopped is not None:
        print_stopped(stopped, len(source.items))
        raise stopped


def compare_models(
    server: ServerOptions,
    out: PrintedOutputOptions,
    summary: SummaryOptions,
    source: Source[RelationText],
    only: list[str] | None,
    direction: Direction | None,
    top: int,
    models: list[str],
    **arguments: Any,
) -> None:
    """Scores relations by several models, of any shapes, each on the texts that it reads, and shows their best heads."""
    with server.connect(arguments["timeout"]) as client:
        found = {model: scores_of(client, source, only, **arguments | {"model": model}) for model in models}
    best = {model: scores.best_heads(direction) for model, scores in found.items()}
    written = out.write(side_by_side({model: scores.columns() for model, scores in found.items()}))
    written += summary.write(side_by_side({model: heads.columns() for model, heads in best.items()}))
    print_result(
        best,
        lambda _: {"models": [view.document(scores, direction) for scores in found.values()]},
        lambda screen, best: view.print_models(screen, best, top),
        json=out.json,
        written=written,
        source=source,
    )


def scores_of(
    client: Client,
    source: Source[RelationText],
    only: list[str] | None,
    reject: OnRejected | None = None,
    **arguments: Any,
) -> RelationScores:
    """Returns the scores of the texts of a file, showing the progress; `reject` gets texts that the server rejects, which the
    source notes unless it is given."""
    with source.some_left(), answering("scoring") as show:
        rejected = reject or source.reject
        return client.score_relations(source.items, only, on_progress=show, on_rejected=rejected, **arguments)


def score_features(
    server: ServerOptions, out: PrintedOutputOptions, source: Source[FeatureText], only: list[str] | None, **arguments: Any
) -> None:
    """Scores features, and shows the heads that attend most to them."""
    with server.connect(arguments["timeout"]) as client, source.some_left(), answering("scoring") as show:
        found = client.score_features(source.items, only, on_progress=show, on_rejected=source.reject, **arguments)
    written = out.write(found, partial(save_features, found))
    print_result(found, view.features_document, view.print_features, json=out.json, written=written, source=source)


def show_trees(
    server: ServerOptions, out: PrintedOutputOptions, source: Source[RelationText], *, by_head: bool, **arguments: Any
) -> None:
    """Scores the trees of maps, and shows the best beside trees that branch to one side, and the best heads of relations."""
    if importlib.util.find_spec("networkx") is None:
        raise Failure("trees need networkx: pip install networkx")
    with server.connect(arguments["timeout"]) as client, source.some_left():
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
