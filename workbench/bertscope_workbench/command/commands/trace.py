"""Show which places of a model carry an answer: put states of a clean text into a corrupted one, one at a time.

Asks about one pair, CLEAN and CORRUPTED, or the pairs of a file; the corrupted text has as many tokens as the clean one, or is
made of it by --noise or --masked. Ctrl-C ends the work on the server, too; pairs that are done are kept, and --resume goes on.

Example:

  bertscope trace --pairs examples/number.jsonl --top 6
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bertscope import MaskedWords, NoisyWords, PatchDirection, Site, Trace

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options import sites, specifications
from bertscope_workbench.command.options.going_on import KeptFile, until_ended
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.looks import LOOKS
from bertscope_workbench.command.options.results import OutputOptions
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source, source_of
from bertscope_workbench.command.options.specifications import numbered
from bertscope_workbench.command.options.targets import EACH_KIND, TargetOptions
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views import sweep_files
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.command.views.progress import tracing
from bertscope_workbench.command.views.trace import print_trace
from bertscope_workbench.plots.traces import save_trace
from bertscope_workbench.readers.files import read_items
from bertscope_workbench.readers.traced_pairs import TRACED, TracedPair, place_of


def trace(
    *,
    server: ServerOptions,
    texts: list[str] | None = argument(
        "[CLEAN] [CORRUPTED]", "The clean text, and the corrupted one.", default=None, without="pairs"
    ),
    answers: list[str] | None = option(
        "--answers A,B", "The score of A over B at the mask: are,is.", reads=specifications.words, without=EACH_KIND
    ),
    target: TargetOptions = offered(
        "answer", "other", "mask", "label", "top_label", "word_label", "value", "similar_to", "next_sentence", "score_scale"
    ),
    noise: list[str] | None = option(
        "--noise WORDS", "Corrupt by noise on the embeddings of words. Repeatable.", without="pairs"
    ),
    seed: int = option("--seed N", "Chooses the noise.", default=0, min=0),
    masked: list[str] | None = option("--masked WORDS", "Corrupt by masks in place of words. Repeatable.", without="pairs"),
    pairs: Path | None = option("--pairs FILE", 'Trace a file: columns "clean", "corrupted", "answer", "other", "groups", ...'),
    columns: Mapping[str, str] | None = option(
        "--columns NAME=COLUMN,...", "What the file calls them: clean=sentence1.", reads=specifications.columns, needs="pairs"
    ),
    limit: int | None = option("--limit N", "Take the first N of the file.", min=1, needs="pairs"),
    site: list[Site] | None = option(
        "--site S[,S]",
        "state (unless set), heads, attention, neurons, feed-forward: what is changed.",
        reads=sites.names,
        joins=specifications.joined,
    ),
    layers: list[int] | None = numbered("--layer, --layers L[,L]", "Layers; all unless set."),
    units: list[int] | None = numbered("--units N[,N]", "Heads or neurons; all unless set."),
    each_unit: bool = flag("--each-unit", "Change each head or neuron alone."),
    words: bool = flag("--words", "Change all pieces of a word at once.", without="together"),
    together: bool = flag("--together", "Change all positions at once."),
    direction: PatchDirection = option(
        "--direction",
        "Restore the clean answer in the corrupted run, or break it in the clean one.",
        default="restore",
        dashed=True,
    ),
    paths: bool = flag(
        "--paths",
        "Change paths from heads and feed-forward blocks to all that read them, not sites.",
        without="site layers units each_unit words together",
    ),
    base: InterventionOptions,
    memory: options.Memory = None,
    top: int = option("--top N", "Places to list, strongest first.", default=14, min=0),
    drawn: OutputOptions = offered(*LOOKS),
    output: Path | None = option("--output FILE", "Write every effect: .tsv, .csv, .jsonl, .tex, or all as .json."),
    resume: Path | None = option("--resume FILE", "Go on from a trace that was cut short: its .json."),
    call: options.LongCallOptions = offered("model", "timeout", "json"),
) -> None:
    if answers is not None:
        first, *rest = answers
        if len(rest) > 1:
            raise UsageError("--answers takes one word, or two: are,is")
        target = replace(target, answer=first, other=rest[0] if rest else None)
    output_files.require_output(output, sweep_files.OUTPUT_FORMATS)
    if pairs is None:
        source = Source([_pair(texts or [], noise, masked, seed, target)], ["the pair"])
    else:
        source = source_of(pairs, lambda: read_items(pairs, TRACED, columns, limit))
    asked = source.items
    earlier = None if resume is None else sweep_files.read_partial(resume, Trace)
    kept: KeptFile[Trace] = KeptFile(sweep_files.kept_path(output), lambda table, path: table.save(path))
    groups = None if all(each.groups is None for each in asked) else [each.groups or {} for each in asked]
    with (
        sweep_files.resumption_named(),
        source.named(),
        server.connect(call.timeout) as client,
        client.sweep_sites(
            [each.clean for each in asked],
            [each.corrupted for each in asked],
            [target.of(f"pairs[{n}]", each.clean, None if target.given else each.own) for n, each in enumerate(asked)],
            groups=groups,
            model=call.model,
            sites=site,
            layers=layers,
            units=units,
            each_unit=each_unit,
            positions="each_word" if words else "together" if together else None,
            direction=direction,
            paths=paths,
            **base.arguments(),
            memory_bytes=memory,
            start_from=earlier,
            timeout=call.timeout,
        ) as running,
    ):
        found, stopped = until_ended(lambda came: tracing(running, came), running.partial, kept)
        if stopped is not None and len(found.pairs) == (len(earlier.pairs) if earlier else 0):
            raise stopped
    show, save = partial(print_trace, top=top), partial(save_trace, found)
    sweep_files.finish(found, show, save, drawn, output, kept, stopped, json=call.json)


def _pair(texts: list[str], noise: list[str] | None, masked: list[str] | None, seed: int, target: TargetOptions) -> TracedPair:
    """Returns the pair of the command line."""
    given: dict[str, Any] = {"--noise": noise, "--masked": masked}
    if not target.given:
        raise UsageError("name the score: --answers A,B, --answer, --label, --top-label, --word-label, --value, ...")
    corruptions = [name for name, value in given.items() if value] + ["CORRUPTED"] * (len(texts) == 2)
    if len(texts) not in (1, 2) or len(corruptions) != 1:
        raise UsageError("give CLEAN and CORRUPTED, or CLEAN and one of --noise WORDS and --masked WORDS, or --pairs FILE")
    clean = texts[0]
    spans = [place_of("CLEAN", clean, word) for word in noise or masked or []]
    corrupted = texts[1] if len(texts) == 2 else NoisyWords(spans, seed=seed) if noise else MaskedWords(spans)
    return TracedPair(clean, corrupted, None, {})
