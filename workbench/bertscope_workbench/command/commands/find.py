"""Search a corpus for the words at which units are largest: heads, neurons, directions or sparse codes.

Each unit is shown with its best places and with words drawn by chance. --pos and --relation count the tags of a treebank at the
best places of all units: what does a head look at? A search that is ended keeps what it found, and --resume goes on.

Example:

  bertscope find examples/sentences.txt --unit head:0:2 --unit neuron:3:217 --places 5
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import bertscope
from bertscope import Contexts, NearestTo, RelationText, Span, TagCounts
from bertscope.questions.representations.contexts import document
from bertscope.values.labelled_texts import Label

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options.going_on import KeptFile, until_ended
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import OutputOptions, SummaryOptions, print_result
from bertscope_workbench.command.options.searched import nearest, searched
from bertscope_workbench.command.options.sources import Source, source_of
from bertscope_workbench.command.views import files as written_files
from bertscope_workbench.command.views.contexts import print_contexts
from bertscope_workbench.command.views.files import partial_name
from bertscope_workbench.command.views.output import Failure, UsageError, console
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.sweep_files import resumption_named
from bertscope_workbench.readers import files, treebanks

MANY_PLACES, MANY_DRAWN = 100, 1000
"""The places of each unit, and those drawn, where tags are counted."""


def find(
    *,
    to: ModelOptions,
    file: Path = argument("FILE", 'Texts (.txt), column "text" of a table, or a treebank (.conllu).'),
    unit: list[str] | None = option(
        "--unit UNIT",
        "head:4:10, neuron:3:217, code:3:217 (with --codes), or all of a layer or kind: heads, neurons:3.",
        field="heads activations",
    ),
    direction: list[str] | None = option(
        "--direction L:FILE.npy", "A direction at the state before layer L. Repeatable.", field="directions"
    ),
    probe: list[str] | None = option(
        "--probe L:FILE.npz=CLASS", "The score of a class of a linear probe of layer L. Repeatable.", field="directions"
    ),
    near: list[NearestTo] | None = option(
        "--nearest L:TEXT",
        'States near to that of a word: "4:She sat on the *bank* of the river." Repeatable.',
        reads=nearest,
        joins=list,
    ),
    word: list[str] | None = option("--word WORD", "Only this word is a place. Repeatable."),
    pieces: bool = flag("--pieces", "Places are pieces of the vocabulary, not words."),
    pairs: str | None = option("--pairs RELATION", "Heads: weights from a word to what depends on it by RELATION (.conllu)."),
    back: bool = flag("--back", "With --pairs: from the dependent word to the one that it depends on.", needs="pairs"),
    pos: bool = flag("--pos", "Count parts of speech at the best places (.conllu).", without="relation"),
    relation: bool = flag("--relation", "Count relations, of words, partners, and between both, likewise."),
    places: int | None = option("--places K", "Best places of each unit; 10, or 100 with --pos.", min=1, max=100),
    sample: int | None = option("--sample N", "Words drawn by chance; 100, or 1000 with --pos.", min=1, max=1000),
    seed: int = option("--seed", "Draws them.", default=0, min=0),
    limit: options.LimitOfEach = None,
    out: OutputOptions = offered("output", output="Write a row for each place: .csv, .tsv, .jsonl, .parquet, .tex."),
    summary: SummaryOptions,
    resume: Path | None = option("--resume FILE", "Go on from a search that was cut short: its .npz."),
    call: options.LongCallOptions,
) -> None:
    tagged = pos or relation
    if (tagged or pairs) and file.suffix != ".conllu":
        raise UsageError("--pos, --relation and --pairs go with a treebank (.conllu)")
    if summary.summary is not None and not tagged:
        raise UsageError("--summary goes with --pos or --relation: it is the table of tags")
    asked = searched(unit, direction, probe, to.codes, near)
    source = texts_of(file, limit)
    earlier = None if resume is None else _earlier(resume)
    kept = KeptFile(None if out.output is None else _kept_path(out.output), bertscope.save_contexts)
    latest = list[Contexts]()

    def search(came: Callable[[], None]) -> Contexts:
        def note(so_far: Contexts) -> None:
            latest[:] = [so_far]
            came()

        return client.find_contexts(
            source.items,
            **asked,
            nearest=near or (),
            relation=pairs,
            backward=back,
            places=places or (MANY_PLACES if tagged else None),
            sample=sample or (MANY_DRAWN if tagged else None),
            seed=seed,
            pieces=pieces,
            words=word or (),
            start_from=earlier,
            on_found=note,
            on_progress=show,
            on_rejected=source.reject,
            **to.arguments(),
            **call.arguments(),
        )

    def so_far(why: str) -> Contexts:
        if not latest:
            raise bertscope.Cancelled(f"nothing was found yet: {why}")
        return latest[0]

    with resumption_named(), to.connect(call.timeout) as client, source.some_left(), answering("searching") as show:
        found, stopped = until_ended(search, so_far, kept)
    if stopped is not None:
        path = _kept_path(out.output or Path(f"find-{file.stem}.npz"))
        written_files.kept(partial(bertscope.save_contexts, found), path)
        console(stderr=True).print(f"the rest: the same command with --resume {path}", soft_wrap=True)
        raise stopped
    if found.units and not any(one.count for one in found):
        raise Failure(nothing(source.items, pairs))
    counts = None
    if tagged:
        links = links_of(source.items) if relation else ()
        counts = bertscope.count_tags(found, tags_of(file, "deprel" if relation else "upos", limit), links)
    written = out.write(found)
    if counts is not None:
        written += summary.write(counts)
    shown = partial(print_contexts, counts=counts)
    print_result(found, partial(described, counts=counts), shown, json=call.json, written=written, source=source)
    kept.drop(out.output)


def _kept_path(output: Path) -> Path:
    """Returns the file that has what was found while it is searched for."""
    return partial_name(output).with_suffix(".npz")


def _earlier(path: Path) -> Contexts:
    """Reads the file of --resume, or of a table of places the one beside it. Raises Failure for one that can't be read."""
    kept = path if path.suffix.lower() == ".npz" else _kept_path(path)
    return written_files.read_file(kept, bertscope.load_contexts)


def described(found: Contexts, counts: TagCounts | None) -> dict[str, Any]:
    """Returns the contexts, and the counts of tags, as one document."""
    return document(found) | ({} if counts is None else {"tags": counts.records()})


def texts_of(path: Path, limit: int | None) -> Source[Any]:
    """Returns the texts of a file; of a treebank with its words and pairs. Raises Failure for one that can't be read."""
    if path.suffix == ".conllu":
        return source_of(path, lambda: treebanks.read_conllu(path, limit=limit))
    return source_of(path, lambda: files.read_inputs(path, limit=limit))


def tags_of(path: Path, column: Literal["upos", "deprel"], limit: int | None) -> dict[int, list[tuple[str, int, int]]]:
    """Returns the tags of the words of a treebank's texts, by the index of the text."""
    tags = {
        text.text: [(label.label, label.start, label.end) for label in cast("Sequence[Label]", text.labels)]
        for text in treebanks.read_probe_conllu(path, column, limit=limit)
    }
    texts = enumerate(treebanks.read_conllu(path, limit=limit))
    return {number: tags[text.text] for number, text in texts if text.text in tags}


def nothing(texts: Sequence[Any], relation: str | None) -> str:
    """Returns why no unit has a place."""
    if relation is None:
        return "no text has a word that is searched; leave out --word, or give other texts"
    known = sorted({name for text in texts for name, *_ in text.pairs})
    return f"no word depends on another by {relation!r}; the file has {', '.join(known) or 'no relation'}"


def links_of(texts: Sequence[RelationText]) -> list[list[tuple[str, int, int]]]:
    """Returns the dependencies of texts as links: "det to head" from a word to what it depends on, "det from head" back."""
    found = []
    for text in texts:
        words = cast("Sequence[Span]", text.words)
        rows = list[tuple[str, int, int]]()
        for name, head, dependent in text.pairs:
            rows.append((f"{name} to head", words[dependent].start, words[head].start))
            rows.append((f"{name} from head", words[head].start, words[dependent].start))
        found.append(rows)
    return found
