"""Says a benchmark in sentences: one for a decision, and one for each model."""

from __future__ import annotations

import math

from bertscope import BenchmarkReport, ModelReport, Ratio, Speed

from bertscope_workbench.command.views.benchmark_sheets import factor, number, short

ENOUGH = 0.95
"""The share of the baseline's score that a model must keep, by the lower end of the interval, to be proposed."""
SAME_SIZE = 0.02
"""Files that differ by less than this share are of the same size."""


def verdict(report: BenchmarkReport) -> str:
    """Returns the decision that a benchmark supports, in few sentences: the fastest model that is shown to keep enough.

    The choice is by the speed one sequence at a time, at the first length. A loss that an interval can't tell from none is not
    shown to be small: too few items hide large ones.
    """
    others = [model for model in report.models if model.name != report.baseline and model.speeds]
    if not others:
        return "Only the baseline was measured: there is nothing to decide between."
    faster = [model for model in others if (ratio := _latency(model)) and ratio.verdict == "above"]
    if not faster:
        return f"No model is measurably faster than {short(report.baseline)}, one text at a time, {_place(report)}."
    ordered = sorted(faster, key=_gain, reverse=True)
    if not report.metrics:
        lost = (
            ""
            if ordered[0].agreement or ordered[0].vectors
            else " What the models lost was not measured: a file to score them on says it."
        )
        return f"{_sentence(report, ordered[0], 'is the fastest')}{lost}"
    safe = [model for model in ordered if (kept := _kept(model)) and kept.low >= ENOUGH]
    if not safe:
        begins = f"No faster model is shown to keep {100 * ENOUGH:.0f} % of {_quality(report)}. "
        open_ones = any((kept := _kept(model)) and kept.high >= ENOUGH for model in ordered)
        more = " More items to score on would tell." if open_ones else ""
        return f"{begins}{_sentence(report, ordered[0], 'is the fastest')}{more}"
    proof = f"is the fastest that is shown to keep {100 * ENOUGH:.0f} % of {_quality(report)}"
    return _sentence(report, safe[0], proof) + _level(safe)


def model_verdicts(report: BenchmarkReport) -> list[str]:
    """Returns a sentence for each model but the baseline: how much faster at each length, how much smaller, what it lost."""
    return [_sentence(report, model, "is", every=True) for model in report.models if model.name != report.baseline]


def _sentence(report: BenchmarkReport, model: ModelReport, begins: str, *, every: bool = False) -> str:
    """Returns "small is the fastest: 1.93 [1.90, 1.97] times as fast as large at 32 tokens, 4 times smaller, ..."."""
    speeds = model.speeds if every else model.speeds[:1]
    said = [*filter(None, (_speed(speed, report) for speed in speeds)), _size(model), _loss(report, model)]
    colon = ":" if begins != "is" else ""
    return f"{short(model.name)} {begins}{colon} {', '.join(said)}."


def _speed(speed: Speed, report: BenchmarkReport) -> str:
    ratio, where = speed.latency_speedup, _place(report, speed.length)
    if ratio is None:
        return ""
    if not ratio.distinguishable:
        return f"not distinguishable in speed from {short(report.baseline)} {where} ({_range(ratio)})"
    caveat = f" ({ratio.caveat})" if ratio.caveat else ""
    return f"{_range(ratio)} times as fast as {short(report.baseline)} {where}{caveat}"


def _size(model: ModelReport) -> str:
    # An older server sends the ratio of files alone, which may be stored in other formats than models run in.
    smaller = model.size_ratio or model.compression
    if abs(smaller - 1) < SAME_SIZE:
        return "as large"
    return f"{factor(smaller)} times smaller" if smaller > 1 else f"{factor(1 / smaller)} times larger"


def _loss(report: BenchmarkReport, model: ModelReport) -> str:
    kept = _kept(model)
    if kept is not None:
        return f"with {100 * kept.value:.1f} %{_bounds(kept, 100)} of {_quality(report)}"
    if model.agreement is not None:
        return f"with the same likeliest prediction at {100 * model.agreement.top_1:.1f} % of {model.agreement.places} places"
    if model.vectors is not None:
        nearest = f"{100 * model.vectors.neighbours:.1f} % of each text's {model.vectors.k} nearest the same"
        return f"with {nearest}, and a rank correlation of similarities of {model.vectors.rank_correlation:.2f}"
    return "with nothing known of what it lost"


def _level(safe: list[ModelReport]) -> str:
    """Returns which models can't be told apart from the chosen one by their speed."""
    best = _latency(safe[0])
    level = [short(model.name) for model in safe[1:] if best and (other := _latency(model)) and other.high >= best.low]
    return f" {' and '.join(level)} can't be told apart from it in speed." if level else ""


def _latency(model: ModelReport) -> Ratio | None:
    return model.speeds[0].latency_speedup if model.speeds else None


def _gain(model: ModelReport) -> float:
    found = _latency(model)
    return found.value if found else 0.0


def _kept(model: ModelReport) -> Ratio | None:
    return model.scores[0].retained if model.scores else None


def _quality(report: BenchmarkReport) -> str:
    return f"the baseline's quality by {report.metrics[0].replace('_', ' ')}"


def _range(ratio: Ratio) -> str:
    return f"{factor(ratio.value)}{_bounds(ratio)}"


def _bounds(ratio: Ratio, times: float = 1) -> str:
    if ratio.no_interval or not math.isfinite(ratio.high):
        return ""
    low, high = (f"{times * end:.1f}" if times != 1 else number(end) for end in (ratio.low, ratio.high))
    return f" [{low}, {high}]"


def _place(report: BenchmarkReport, length: int | None = None) -> str:
    found = report.lengths[0] if length is None else length
    return f"at {found} tokens" if found else "on the given texts"
