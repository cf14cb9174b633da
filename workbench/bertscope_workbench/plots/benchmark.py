"""Draws benchmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

from bertscope import BenchmarkReport, ModelReport, Ratio

from bertscope_workbench.plots.figures import Axes, Figure, saving, side_by_side
from bertscope_workbench.plots.look import Look, asked_size, asked_title, looking, points
from bertscope_workbench.plots.theme import Theme, fitted, shown, theme_of

if TYPE_CHECKING:
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

__all__ = ["plot_benchmark", "save_benchmark"]

DOT, BASELINE_DOT = "#2371b0", "#d1571c"
LARGEST_DOT = 500.0
"""Area of the dot of the model with the most parameters, square points."""
SMALLEST_DOT = 12.0
FAR = 1e9
"""The drawn end of an interval without an upper end: beyond the panel."""
GAP_POINTS = 2.0
"""The distance between a dot and a name."""
NAME_CHARACTERS = 32
LOG_FROM = 10.0
"""The axis is logarithmic if the largest speed-up / the smallest reaches this."""
PANEL_WIDTH, PANEL_HEIGHT, LINE_HEIGHT = 5.4, 4.6, 0.15
"""Inches; the last one is the height of a line of the title and of the text below."""
TITLE_SIZE, SMALL_SIZE = 9.5, 7.5
"""Points."""
ROOM = 0.06
"""Share of the axis that is left beyond the smallest and the largest possible quality."""
LABEL_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


@looking
def plot_benchmark(report: BenchmarkReport, *, offline: bool = False, **look: Unpack[Look]) -> Figure:
    """Draws speed-up against quality kept: a panel for each length, a dot for each model, its area the number of parameters.

    Quality is the share of the baseline's score that is kept, of the objective's first metric; without an objective the share
    of places where the likeliest prediction is the baseline's or, of vectors, that of a text's nearest texts which are. Speed
    is that of one sequence at a time or, with `offline`, of batches. Lines are intervals, which cover noise only; a hollow
    dot's speed can't be distinguished from the baseline's. A ratio's caveat is written at its dot, which is dotted, and the
    report's warnings are at the top. Raises ValueError for a report without any quality.
    """
    quality = require_quality(report)
    lengths = report.lengths
    heading, small_print = _heading(report, quality), _small_print(report)
    theme, width = theme_of(look), asked_size(PANEL_WIDTH * len(lengths), PANEL_HEIGHT)[0]
    sizes = ((heading, points(TITLE_SIZE)), (small_print, points(SMALL_SIZE)))
    heading, small_print = (fitted(text, width, size) for text, size in sizes)
    lines = heading.count("\n") + small_print.count("\n")
    figure, drawn = side_by_side([PANEL_WIDTH] * len(lengths), PANEL_HEIGHT + LINE_HEIGHT * lines, theme, sharey=True)
    for axes, length in zip(drawn, lengths, strict=True):
        _panel(axes, report, length, theme, offline=offline)
    drawn[0].set_ylabel(f"{quality}, % of the baseline's" if report.metrics else f"{quality}, %", color=theme.ink)
    figure.suptitle(shown(heading), color=theme.ink, fontsize=points(TITLE_SIZE))
    figure.supxlabel(shown(small_print), color=theme.ink, fontsize=points(SMALL_SIZE))
    return figure


def _heading(report: BenchmarkReport, quality: str) -> str:
    """Returns warnings, which no title replaces, then the title."""
    runtimes = {model.provenance.runtime for model in report.models}
    how = f", all run by {runtimes.pop()}" if len(runtimes) == 1 else ""
    warned = [f"Warning: {warning}" for warning in report.warnings]
    title = asked_title(f"speed-up and {quality}, against {report.baseline}{how}")
    return "\n".join([*warned, *([title] if title else [])])


def _small_print(report: BenchmarkReport) -> str:
    machine = f"{report.machine.cpu}, {report.machine.threads} thread{'' if report.machine.threads == 1 else 's'}"
    return f"area: parameters; hollow: speed not distinguishable; lines: intervals, which cover noise only\n{machine}"


save_benchmark = saving(plot_benchmark)


def require_quality(report: BenchmarkReport) -> str:
    """Returns the quality that a figure shows, in words. Raises ValueError for a report without one."""
    if report.metrics:
        return f"{report.metrics[0].replace('_', ' ')} kept"
    if any(model.agreement for model in report.models):
        return "same likeliest prediction"
    if vectors := next((model.vectors for model in report.models if model.vectors), None):
        return f"same of {vectors.k} nearest texts"
    raise ValueError("nothing says what the models lost: measure them with an objective or agreement_texts")


@dataclass(frozen=True)
class _Dot:
    """The position of a model."""

    name: str
    speedup: Ratio
    kept: Ratio
    area: float
    baseline: bool


def _panel(axes: Axes, report: BenchmarkReport, length: int, theme: Theme, *, offline: bool) -> None:
    most = max(model.parameters for model in report.models) or 1
    dots = [dot for model in report.models if (dot := _dot(report, model, length, most, offline=offline))]
    axes.axvline(1, color=theme.faint, linewidth=1, zorder=0)
    axes.axhline(100, color=theme.faint, linewidth=1, zorder=0)
    for dot in dots:
        _draw(axes, dot, theme)
    speed = "in batches" if offline else "one sequence at a time"
    axes.set_title("given texts" if length == 0 else f"{length} tokens", color=theme.ink, fontsize=points(10))
    axes.set_xlabel(f"speed-up, {speed} (times)", color=theme.ink)
    _set_scale(axes, [dot.speedup.value for dot in dots])
    axes.margins(0.16)
    _limit(axes, share=not report.metrics)
    axes.grid(color=theme.faint, linewidth=0.4, alpha=0.6)
    _label(axes, dots, theme)


def _limit(axes: Axes, *, share: bool) -> None:
    """Limits the axis to possible qualities: not below 0 or, for a share, over 100 %."""
    low, high = axes.get_ylim()
    room = ROOM * (high - low)
    low, high = max(low, -room), min(high, 100 + room) if share else high
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= (100 if share else high)])
    axes.set_ylim(low, high)


def _set_scale(axes: Axes, speedups: list[float]) -> None:
    if speedups and max(speedups) > LOG_FROM * min(speedups):
        from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.xaxis.set_minor_formatter(NullFormatter())


def _draw(axes: Axes, dot: _Dot, theme: Theme) -> None:
    color = BASELINE_DOT if dot.baseline else DOT
    hollow = not (dot.baseline or dot.speedup.distinguishable)
    fill = "none" if hollow else (color, 0.4)  # Dots may overlap.
    line = ":" if dot.speedup.caveat else "-"
    axes.scatter(
        dot.speedup.value, dot.kept.value, s=dot.area, facecolor=fill, edgecolor=color, linewidth=1.4, linestyle=line, zorder=2
    )
    if not dot.baseline:
        _interval(axes, theme, [dot.speedup.low, dot.speedup.high], [dot.kept.value] * 2)
        _interval(axes, theme, [dot.speedup.value] * 2, [dot.kept.low, dot.kept.high])


def _interval(axes: Axes, theme: Theme, across: list[float], up: list[float]) -> None:
    from matplotlib.lines import Line2D

    line = Line2D(across, up, color=theme.ink, linewidth=1, zorder=3)
    if FAR in (across[1], up[1]):
        axes.add_artist(line)  # does not change the limits of the panel
    else:
        axes.add_line(line)


def _dot(report: BenchmarkReport, model: ModelReport, length: int, most: int, *, offline: bool) -> _Dot | None:
    speed = next((speed for speed in model.speeds if speed.length == length), None)
    baseline = model.name == report.baseline
    speedup = speed and (speed.throughput_speedup if offline else speed.latency_speedup)
    kept = _kept(model, scored=bool(report.metrics))
    if baseline:
        speedup = kept = Ratio(1, 1, 1, "not_distinguishable")
    if not speedup or not kept:
        return None
    percent = Ratio(100 * kept.value, 100 * kept.low, min(100 * kept.high, FAR), kept.verdict)
    speedup = replace(speedup, high=min(speedup.high, FAR))
    area = max(SMALLEST_DOT, LARGEST_DOT * model.parameters / most)
    return _Dot(model.name.removeprefix("models/"), speedup, percent, area, baseline)


def _kept(model: ModelReport, *, scored: bool) -> Ratio | None:
    if scored:
        return model.scores[0].retained if model.scores else None
    if model.vectors is not None:
        found = model.vectors
        return Ratio(found.neighbours, found.neighbours_low, found.neighbours_high, "not_distinguishable")
    if model.agreement is None:
        return None
    # A share of places has no interval in the report.
    return Ratio(model.agreement.top_1, model.agreement.top_1, model.agreement.top_1, "not_distinguishable")


def _label(axes: Axes, dots: list[_Dot], theme: Theme) -> None:
    """Writes the names beside the dots, without covering another name or a dot."""
    figure = axes.get_figure(root=True)
    figure.draw_without_rendering()  # type: ignore[union-attr, unused-ignore]  # the layout says where the dots are
    taken = [box for dot in dots for box in _boxes_of(axes, dot)]
    for dot in sorted(dots, key=lambda dot: -dot.area):
        candidates = [_annotation(axes, dot, direction, theme) for direction in LABEL_DIRECTIONS]
        boxes = [candidate.get_window_extent() for candidate in candidates]
        covered = [_covered(box, taken, axes.bbox) for box in boxes]
        best = covered.index(min(covered))
        for candidate in candidates:
            if candidate is not candidates[best]:
                candidate.remove()
        taken.append(boxes[best])


def _annotation(axes: Axes, dot: _Dot, direction: tuple[int, int], theme: Theme) -> Annotation:
    across, up = direction
    reach = _radius_points(dot) + 2 * GAP_POINTS
    # Diagonal positions have the same distance as the others.
    reach *= 0.75 if across and up else 1
    result = axes.annotate(
        shown("\n".join(filter(None, (_short(dot.name) + (" (baseline)" if dot.baseline else ""), dot.speedup.caveat)))),
        (dot.speedup.value, dot.kept.value),
        xytext=(across * reach, up * reach),
        textcoords="offset points",
        ha=("right", "center", "left")[across + 1],
        va=("top", "center", "bottom")[up + 1],
        fontsize=points(8),
        color=theme.ink,
    )
    result.set_in_layout(False)
    return result


def _boxes_of(axes: Axes, dot: _Dot) -> list[Bbox]:
    """Returns the boxes of a dot and of the lines of its intervals, pixels."""
    from matplotlib.transforms import Bbox

    pixels = axes.figure.dpi / 72
    ends = (dot.speedup.low, dot.kept.low), (dot.speedup.value, dot.kept.value), (dot.speedup.high, dot.kept.high)
    (left, bottom), (x, y), (right, top) = axes.transData.transform(ends)
    radius, gap = (_radius_points(dot) + GAP_POINTS) * pixels, GAP_POINTS * pixels
    return [
        Bbox.from_extents(x - radius, y - radius, x + radius, y + radius),
        Bbox.from_extents(left - gap, y - gap, right + gap, y + gap),
        Bbox.from_extents(x - gap, bottom - gap, x + gap, top + gap),
    ]


def _radius_points(dot: _Dot) -> float:
    return math.sqrt(dot.area / math.pi)


def _covered(box: Bbox, taken: list[Bbox], inside: Bbox) -> float:
    """Returns the area of a box that overlaps others or lies outside, square pixels."""
    size = box.width * box.height
    outside = size - _common(box, inside)
    return outside + sum(_common(box, other) for other in taken)


def _common(one: Bbox, other: Bbox) -> float:
    from matplotlib.transforms import Bbox

    both = Bbox.intersection(one, other)
    return both.width * both.height if both else 0.0


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 3]}..."
