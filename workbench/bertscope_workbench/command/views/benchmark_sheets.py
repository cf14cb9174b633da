"""Formats benchmarks for people as sheets, which a terminal and Markdown show the same way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from bertscope import BenchmarkReport, ModelReport, Provenance, Ratio, Speed, StudyRow, StudyTable

from bertscope_workbench.command.views.output import plural

NOT_DISTINGUISHABLE = "not distinguishable"
BASELINE = "baseline"
NOTHING = ""
UNDEFINED = "-"
MOSTLY_NOT_ZERO = 0.98
"""If this share of the parameters is not zero, zeros (rows for padding and the like) are not mentioned."""


@dataclass(frozen=True)
class Group:
    """Columns that belong together; a name that ends with "#" is a column of numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Sheet:
    """Groups of columns about the same items, which are named in the first column."""

    title: str
    key: str
    names: tuple[str, ...]
    groups: tuple[Group, ...]


def parts(sheet: Sheet, fits: Callable[[Sheet], bool]) -> Iterator[Sheet]:
    """Yields a sheet as sheets of as many groups as fit side by side, which their titles name."""
    shown = list[Group]()
    for group in sheet.groups:
        if shown and not fits(_part(sheet, [*shown, group])):
            yield _part(sheet, shown)
            shown = []
        shown.append(group)
    yield _part(sheet, shown)


def _part(sheet: Sheet, groups: Sequence[Group]) -> Sheet:
    titles = ", ".join(filter(None, (group.title for group in groups)))
    return replace(sheet, title=f"{sheet.title}: {titles}" if titles else sheet.title, groups=tuple(groups))


def cells(sheet: Sheet) -> list[list[str]]:
    """Returns the heads on one line, with their "#", and the rows of all groups."""
    names = [sheet.key, *(column for group in sheet.groups for column in group.columns)]
    rows = [[name, *(cell for group in sheet.groups for cell in group.rows[index])] for index, name in enumerate(sheet.names)]
    return [[" ".join(name.split()) for name in names], *rows]


def report_sheets(report: BenchmarkReport, *, full: bool) -> list[Sheet]:
    """Returns sizes, speed at each length, and losses. `full` gives numbers also for indistinguishable ratios."""
    names = tuple(_short(model.name) for model in report.models)
    # The baseline may have run in several ways.
    ran = (*report.models, *report.references)
    all_names = (*names, *map(_how_named, (model.provenance for model in report.references)))
    sheets = [Sheet("models", "model", all_names, (_runtimes(report, ran), _sizes(ran)))]
    for length in report.lengths:
        speeds = [next((speed for speed in model.speeds if speed.length == length), None) for model in ran]
        baselines = [model.name == report.baseline for model in ran]
        groups = _latency(speeds, baselines, full=full), _throughput(speeds, baselines, full=full)
        sheets.append(Sheet(_length(length), "model", all_names, groups))
    lost = (*_agreement(report), *_vectors(report), *(_score(report, metric, full=full) for metric in report.metrics))
    return [*sheets, Sheet("what was lost", "model", names, lost)] if lost else sheets


def study_sheet(table: StudyTable, *, full: bool) -> Sheet:
    """Returns the measured systems, as published and as measured."""
    studies = [study for study in table.studies if study.measured]
    names = tuple(study.published.system for study in studies)
    lengths = table.lengths
    compression = Group(
        "compression",
        ("compression\npublished#", "\nmeasured#"),
        tuple((study.published.compression, factor(study.measured.compression)) for study in studies if study.measured),
    )
    speedup = Group(
        "speed-up one at a time",
        ("speed-up\npublished#", *(f"measured at\n{_length(length)}" for length in lengths)),
        tuple(
            (study.published.speedup, *_speedups(study, lengths, attrgetter("latency_speedup"), full=full)) for study in studies
        ),
    )
    batches = Group(
        "speed-up in batches",
        tuple(f"in batches,\n{_length(length)}" for length in lengths),
        tuple(tuple(_speedups(study, lengths, attrgetter("throughput_speedup"), full=full)) for study in studies),
    )
    origin = Group(
        "what it is",
        ("technique", "built", "runs as", "published\nrelative to", "measured\nagainst"),
        tuple(map(_origin, studies)),
    )
    return Sheet("the Primer's Table 1, published and measured", "system", names, (compression, speedup, batches, origin))


def not_measured(table: StudyTable) -> list[tuple[str, str]]:
    """Returns the systems that were not measured, and why."""
    return [(study.published.system, study.not_measured) for study in table.studies if not study.measured]


def number(value: float) -> str:
    """Returns three significant digits without an exponent: 0.0123, 1.93, 438, 1240."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{_decimals(value)}f}"


def factor(value: float) -> str:
    """Returns a factor to a hundredth: 2.41, 0.47, 110."""
    return f"{value:.2f}" if 0.1 <= value < 10 else number(value)


def ratio(value: Ratio | None, *, baseline: bool, full: bool, percent: bool = False) -> str:
    """Returns a ratio with its interval, or that it can't be distinguished from 1."""
    if value is None:
        return BASELINE if baseline else NOTHING
    times, unit = (100, " %") if percent else (1, "")
    decimals = 1 if percent else 2 if 0.1 <= value.value < 1 else _decimals(value.value)
    low, high = (f"{times * bound:.{decimals}f}" for bound in (value.low, value.high))
    text = f"{times * value.value:.{decimals}f}{unit} [{low}, {high}]"
    if value.no_interval:
        text = f"{times * value.value:.{decimals}f}{unit}, no interval: {value.no_interval.replace('_', ' ')}"
    elif not value.distinguishable:
        text = f"{NOT_DISTINGUISHABLE} ({text})" if full else NOT_DISTINGUISHABLE
    return f"{text}, {value.caveat}" if value.caveat else text


def _origin(study: StudyRow) -> tuple[str, ...]:
    how = study.measured.provenance if study.measured else None
    runs = f"{how.runtime}, {how.precision}" if how else NOTHING
    return study.published.technique, study.built, runs, study.published.relative_to, study.baseline


def _runtimes(report: BenchmarkReport, ran: Sequence[ModelReport]) -> Group:
    base = report.model(report.baseline).provenance
    columns = {
        "runtime": [model.provenance.runtime for model in ran],
        "precision": [model.provenance.precision for model in ran],
        "compressed": ["+".join(step.step for step in model.steps) for model in ran],
        "loaded as": [f"{model.loaded_runtime} {model.loaded_precision}" if model.copied else NOTHING for model in ran],
        "compared with": [
            _how_named(model.compared_with) if model.compared_with and model.compared_with != base else NOTHING for model in ran
        ],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    return Group("how they run", tuple(shown), tuple(zip(*shown.values(), strict=True)))


def _sizes(ran: Sequence[ModelReport]) -> Group:
    rows = tuple(
        (
            _parameters(model),
            number(model.weight_bytes / 1e6),
            factor(model.compression),
            number(model.memory_bytes / 1e6),
        )
        for model in ran
    )
    return Group("how large they are", ("parameters, M#", "weights, MB#", "compression#", "memory, MB#"), rows)


def _parameters(model: ModelReport) -> str:
    all_of_them = number(model.parameters / 1e6)
    if model.nonzero_parameters is None or model.nonzero_parameters > MOSTLY_NOT_ZERO * model.parameters:
        return all_of_them
    return f"{all_of_them} ({number(model.nonzero_parameters / 1e6)} not 0)"


def _latency(speeds: Sequence[Speed | None], baselines: Sequence[bool], *, full: bool) -> Group:
    rows = tuple(
        (
            *(number(1000 * seconds) for seconds in (speed.p50_seconds, speed.p95_seconds, speed.p99_seconds)),
            ratio(speed.latency_speedup, baseline=baseline, full=full),
        )
        if speed
        else (NOTHING,) * 4
        for speed, baseline in zip(speeds, baselines, strict=True)
    )
    return Group("one sequence at a time", ("p50, ms#", "p95#", "p99#", "speed-up, x"), rows)


def _throughput(speeds: Sequence[Speed | None], baselines: Sequence[bool], *, full: bool) -> Group:
    rows = tuple(
        (
            number(speed.throughput),
            str(speed.best_batch),
            ratio(speed.throughput_speedup, baseline=baseline, full=full),
        )
        if speed
        else (NOTHING,) * 3
        for speed, baseline in zip(speeds, baselines, strict=True)
    )
    return Group("in batches", ("texts/s#", "batch#", "speed-up, x"), rows)


def _agreement(report: BenchmarkReport) -> Iterable[Group]:
    found = [model.agreement for model in report.models]
    first = next(filter(None, found), None)
    if first is None:
        return
    rows = tuple(
        (
            f"{100 * agreement.top_1:.1f} %",
            f"{100 * agreement.top_k:.1f} %",
            f"{agreement.divergence:.4f} [{agreement.divergence_low:.4f}, {agreement.divergence_high:.4f}]",
        )
        if agreement
        else (NOTHING, NOTHING, BASELINE if model.name == report.baseline else NOTHING)
        for agreement, model in zip(found, report.models, strict=True)
    )
    title = f"agreement at {plural(first.places, 'place')}"
    yield Group(title, ("same top 1#", f"of top {first.k}#", "KL, nats"), rows)


def _vectors(report: BenchmarkReport) -> Iterable[Group]:
    found = [model.vectors for model in report.models]
    first = next(filter(None, found), None)
    if first is None:
        return
    rows = tuple(
        (
            _estimate(vectors.cosine, vectors.cosine_low, vectors.cosine_high),
            _estimate(vectors.neighbours, vectors.neighbours_low, vectors.neighbours_high, percent=True),
            _estimate(vectors.rank_correlation, vectors.rank_correlation_low, vectors.rank_correlation_high),
        )
        if vectors
        else (NOTHING, NOTHING, BASELINE if model.name == report.baseline else NOTHING)
        for vectors, model in zip(found, report.models, strict=True)
    )
    title = f"vectors of {plural(first.texts, 'text')}"
    yield Group(title, ("cosine", f"same of {first.k} nearest", "rank correlation"), rows)


def _estimate(value: float | None, low: float | None, high: float | None, *, percent: bool = False) -> str:
    """Returns a mean with its interval; "-" for one that is not defined."""
    if value is None or low is None or high is None:
        return UNDEFINED
    if percent:
        return f"{100 * value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{value:.4f} [{low:.4f}, {high:.4f}]"


def _score(report: BenchmarkReport, metric: str, *, full: bool) -> Group:
    rows = []
    for model in report.models:
        score = next((score for score in model.scores if score.metric == metric), None)
        kept = ratio(score.retained, baseline=model.name == report.baseline, full=full, percent=True) if score else NOTHING
        rows.append((f"{score.value:.4f}" if score else NOTHING, kept))
    name = metric.replace("_", " ")
    return Group(name, (f"{name}#", "kept"), tuple(rows))


def _speedups(
    study: StudyRow, lengths: Iterable[int], speedup: Callable[[Speed], Ratio | None], *, full: bool
) -> Iterable[str]:
    speeds = {speed.length: speed for speed in study.measured.speeds} if study.measured else {}
    for length in lengths:
        yield ratio(speedup(speeds[length]), baseline=True, full=full) if length in speeds else NOTHING


def _how_named(provenance: Provenance) -> str:
    return f"{_short(provenance.model)} by {provenance.runtime}"


def _length(length: int) -> str:
    return f"{length} tokens" if length else "given texts"


def _short(name: str) -> str:
    return name.removeprefix("models/")


def _decimals(value: float) -> int:
    return max(0, 2 - math.floor(math.log10(abs(value)))) if value else 2
