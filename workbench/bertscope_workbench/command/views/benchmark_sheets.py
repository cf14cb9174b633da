"""Formats benchmarks for people as sheets. Columns are declared here once, for the terminal, the page and LaTeX."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from bertscope import BenchmarkReport, ModelReport, Provenance, Ratio, Speed, StudyRow, StudyTable

from bertscope_workbench.command.views.output import plural

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], str | Ratio | None]]
"""The name of each column, and its cell: a text, or a ratio, None where there is none."""

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


LATENCY: Columns[Speed] = {
    "p50, ms#": lambda speed: number(1000 * speed.p50_seconds),
    "p95#": lambda speed: number(1000 * speed.p95_seconds),
    "p99#": lambda speed: number(1000 * speed.p99_seconds),
    "speed-up, x": lambda speed: speed.latency_speedup,
}
THROUGHPUT: Columns[Speed] = {
    "texts/s#": lambda speed: number(speed.throughput),
    "batch#": lambda speed: str(speed.best_batch),
    "speed-up, x": lambda speed: speed.throughput_speedup,
}
SIZES: Columns[ModelReport] = {
    "parameters, M#": lambda model: _parameters(model),
    "weights, MB#": lambda model: number(model.weight_bytes / 1e6),
    "times smaller#": lambda model: factor(model.size_ratio or model.compression),
    "memory, MB#": lambda model: number(model.memory_bytes / 1e6),
}
COMPRESSION: Columns[StudyRow] = {
    "compression\npublished#": lambda study: study.published.compression,
    "\nmeasured#": lambda study: factor(study.measured.compression) if study.measured else NOTHING,
}
ORIGIN: Columns[StudyRow] = {
    "technique": lambda study: study.published.technique,
    "built": lambda study: study.built,
    "runs as": lambda study: (
        f"{how.runtime}, {how.precision}" if study.measured and (how := study.measured.provenance) else NOTHING
    ),
    "published\nrelative to": lambda study: study.published.relative_to,
    "measured\nagainst": lambda study: study.baseline,
}


def report_sheets(report: BenchmarkReport, *, full: bool) -> list[Sheet]:
    """Returns sizes, speed at each length, and losses. `full` gives numbers also for indistinguishable ratios."""
    # The baseline may have run in several ways.
    ran = (*report.models, *report.references)
    names = tuple(short(model.name) for model in report.models)
    all_names = (*names, *(_how_named(model.provenance) for model in report.references))
    baselines = [model.name == report.baseline for model in ran]

    def group(title: str, columns: Columns[T], items: Iterable[T | None], **how: bool) -> Group:
        return _group(title, columns, zip(items, baselines, strict=False), full=full, **how)

    def kept() -> list[Group]:
        """Returns what stands beside each speed: the share of the first metric that was kept, or else the agreement."""
        if report.metrics:
            scores = [next(iter(model.scores), None) for model in report.models]
            name = report.metrics[0].replace("_", " ")
            return [group("quality", {f"{name} kept": lambda score: score.retained}, scores, percent=True)]
        if any(model.agreement for model in report.models):
            return [group("quality", {"same top 1#": _same}, [model.agreement for model in report.models])]
        return []

    sheets = [Sheet("models", "model", all_names, (_runtimes(report, ran), group("how large they are", SIZES, ran)))]
    for length in report.lengths:
        speeds = [_speed(model, length) for model in ran]
        groups = group("one sequence at a time", LATENCY, speeds), group("in batches", THROUGHPUT, speeds)
        # Models that only others are compared with, by another library, have no scores of their own.
        beside = kept() if len(all_names) == len(names) else []
        sheets.append(Sheet(_length(length), "model", all_names, (*groups, *beside)))
    lost = []
    agreements = [model.agreement for model in report.models]
    if places := next(filter(None, agreements), None):
        lost.append(group(f"agreement at {plural(places.places, 'place')}", _agreement(places.k), agreements))
    vectors = [model.vectors for model in report.models]
    if texts := next(filter(None, vectors), None):
        lost.append(group(f"vectors of {plural(texts.texts, 'text')}", _vectors(texts.k), vectors))
    for metric in report.metrics:
        name = metric.replace("_", " ")
        scores = [next((score for score in model.scores if score.metric == metric), None) for model in report.models]
        columns = {f"{name}#": lambda score: f"{score.value:.4f}", "kept": lambda score: score.retained}
        lost.append(group(name, columns, scores, percent=True))
    return [*sheets, Sheet("what was lost", "model", names, tuple(lost))] if lost else sheets


def study_sheet(table: StudyTable, *, full: bool) -> Sheet:
    """Returns the measured systems, as published and as measured."""
    studies = [study for study in table.studies if study.measured]
    at = {_length(length): length for length in table.lengths}
    speedup: Columns[StudyRow] = {"speed-up\npublished#": lambda study: study.published.speedup} | {
        f"measured at\n{name}": partial(_speedup, length=length, of="latency_speedup") for name, length in at.items()
    }
    batches: Columns[StudyRow] = {
        f"in batches,\n{name}": partial(_speedup, length=length, of="throughput_speedup") for name, length in at.items()
    }
    groups = {
        "compression": COMPRESSION,
        "speed-up one at a time": speedup,
        "speed-up in batches": batches,
        "what it is": ORIGIN,
    }
    return Sheet(
        "the Primer's Table 1, published and measured",
        "system",
        tuple(study.published.system for study in studies),
        tuple(_group(title, each, ((study, True) for study in studies), full=full) for title, each in groups.items()),
    )


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


def short(name: str) -> str:
    """Returns the name of a model without "models/"."""
    return name.removeprefix("models/")


def _group(
    title: str, columns: Columns[T], items: Iterable[tuple[T | None, bool]], *, full: bool, percent: bool = False
) -> Group:
    """Returns a row of cells for each item, and whether it is the baseline's. A row without an item is empty; that of the
    baseline, which is not compared with itself, says so in its last cell."""

    def row(item: T | None, baseline: bool) -> tuple[str, ...]:
        if item is None:
            return (*(NOTHING,) * (len(columns) - 1), BASELINE if baseline else NOTHING)
        found = (cell(item) for cell in columns.values())
        return tuple(
            each if isinstance(each, str) else ratio(each, baseline=baseline, full=full, percent=percent) for each in found
        )

    return Group(title, tuple(columns), tuple(row(*item) for item in items))


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


def _parameters(model: ModelReport) -> str:
    all_of_them = number(model.parameters / 1e6)
    if model.nonzero_parameters is None or model.nonzero_parameters > MOSTLY_NOT_ZERO * model.parameters:
        return all_of_them
    return f"{all_of_them} ({number(model.nonzero_parameters / 1e6)} not 0)"


def _same(found: Any) -> str:
    return f"{100 * found.top_1:.1f} %"


def _agreement(k: int) -> Columns[Any]:
    return {
        "same top 1#": _same,
        f"of top {k}#": lambda found: f"{100 * found.top_k:.1f} %",
        "KL, nats": lambda found: _estimate(found, "divergence"),
    }


def _vectors(k: int) -> Columns[Any]:
    return {
        "cosine": lambda found: _estimate(found, "cosine"),
        f"same of {k} nearest": lambda found: _estimate(found, "neighbours", percent=True),
        "rank correlation": lambda found: _estimate(found, "rank_correlation"),
    }


def _estimate(found: object, name: str, *, percent: bool = False) -> str:
    """Returns a mean with its interval; "-" for one that is not defined."""
    value, low, high = (getattr(found, f"{name}{end}") for end in ("", "_low", "_high"))
    if value is None or low is None or high is None:
        return UNDEFINED
    if percent:
        return f"{100 * value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{value:.4f} [{low:.4f}, {high:.4f}]"


def _speed(model: ModelReport | None, length: int) -> Speed | None:
    return next((speed for speed in model.speeds if speed.length == length), None) if model else None


def _speedup(study: StudyRow, *, length: int, of: str) -> str | Ratio | None:
    speed = _speed(study.measured, length)
    found: Ratio | None = getattr(speed, of, None)
    return found if speed else NOTHING


def _how_named(provenance: Provenance) -> str:
    return f"{short(provenance.model)} by {provenance.runtime}"


def _length(length: int) -> str:
    return f"{length} tokens" if length else "given texts"


def _decimals(value: float) -> int:
    return max(0, 2 - math.floor(math.log10(abs(value)))) if value else 2
