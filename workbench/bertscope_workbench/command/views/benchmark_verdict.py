"""Says a benchmark in sentences: one for a decision, and one for each model."""

import math

from bertscope import BenchmarkReport, ModelReport, Ratio, Speed

from bertscope_workbench.command.views.benchmark_sheets import factor, number, short

ENOUGH = 0.95
"""The share of the baseline's score that a model must keep, by the lower end of the interval, to be proposed."""
SAME_SIZE = 0.02
"""Files that differ by less than this share are of the same size."""

MANY_TIMES = 1000
"""More items than so many times those that were scored are not worth naming."""


def verdict(report: BenchmarkReport, items: int | None = None) -> str:
    """Returns the decision that a benchmark supports, in few sentences: the fastest model that is shown to keep enough.

    The choice is by the speed one sequence at a time, at the first length. A loss that an interval can't tell from none is not
    shown to be small: too few items hide large ones, and with the number of `items` that were scored it says how many would do.
    """
    baseline = short(report.baseline)
    others = [model for model in report.models if model.name != report.baseline and model.speeds]
    if not others:
        return "Only the baseline was measured: there is nothing to decide between."
    faster = [model for model in others if (ratio := _latency(model)) and ratio.verdict == "above"]
    if not faster:
        return f"Keep {baseline}: no model is measurably faster, one text at a time, {_place(report)}."
    ordered = sorted(faster, key=_gain, reverse=True)
    if not report.metrics:
        return _without_scores(report, ordered[0])
    safe = [model for model in ordered if (kept := _kept(model)) and kept.low >= ENOUGH]
    if safe:
        best, proof = safe[0], f"At least {100 * ENOUGH:.0f} % is shown."
        return f"Use {short(best.name)}: it is {_gains(report, best)}, and keeps {_loss(report, best)}. {proof}{_level(safe)}"
    undecided = [model for model in ordered if (kept := _kept(model)) and not kept.high < ENOUGH]
    if not undecided:
        least = f"{100 * (1 - ENOUGH):.0f} %"
        lost = f"keeps {_loss(report, ordered[0])}"
        return f"Keep {baseline}: every faster model loses more than {least}. {short(ordered[0].name)}, the fastest, {lost}."
    return _undecided(report, undecided[0], items)


def _without_scores(report: BenchmarkReport, model: ModelReport) -> str:
    """Returns the fastest model, of a benchmark without a file to score models on."""
    found = f"{short(model.name)} is the fastest: {_gains(report, model)}"
    if model.agreement is None and model.vectors is None:
        return f"{found}. What it lost was not measured: give a file to score the models on."
    return f"{found}, {_loss(report, model)}."


def _undecided(report: BenchmarkReport, model: ModelReport, items: int | None) -> str:
    """Returns what is open about the fastest model that may keep enough, and what would tell."""
    name, kept = short(model.name), _kept(model)
    begins = f"Not decided: {name} is {_gains(report, model)}, but"
    scored = f"the {items:,} items" if items else "the items"
    if kept is None or kept.no_interval:
        return f"{begins} too few of {scored} differ to tell what it lost. Score them on more."
    low, high = (f"{100 * max(0.0, end):.0f}" for end in (kept.low, kept.high))
    open_ = (
        f"{begins} {scored} don't show that it keeps {100 * ENOUGH:.0f} % of {_quality(report)}: it keeps {low} to {high} %."
    )
    distance = kept.value - ENOUGH
    if not distance:
        return open_
    # An interval's width falls with the root of the number of items.
    times = (((kept.value - kept.low) if distance > 0 else (kept.high - kept.value)) / distance) ** 2
    if times > MANY_TIMES:
        return f"{open_} More items would hardly tell: it is too close to {100 * ENOUGH:.0f} %."
    enough = f"some {_rounded(items * times):,} items" if items else f"some {math.ceil(times)} times as many items"
    return f"{open_} If it is as good as it seems, {enough} would tell."


def _rounded(value: float) -> int:
    """Returns a number with two significant digits, rounded up."""
    size: int = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return math.ceil(value / size) * size


def model_verdicts(report: BenchmarkReport) -> list[str]:
    """Returns a sentence for each model but the baseline: how much faster at each length, how much smaller, what it lost."""
    return [_sentence(report, model) for model in report.models if model.name != report.baseline]


def _sentence(report: BenchmarkReport, model: ModelReport) -> str:
    """Returns "small is 1.93 [1.90, 1.97] times as fast as large at 32 tokens, ..., 4 times smaller, and keeps 99 % ..."."""
    kept = _loss(report, model)
    return f"{short(model.name)} is {_gains(report, model, every=True)}, {f'and keeps {kept}' if _kept(model) else kept}."


def _gains(report: BenchmarkReport, model: ModelReport, *, every: bool = False) -> str:
    """Returns how much faster a model is, at the first length or at every one, and how much smaller."""
    speeds = model.speeds if every else model.speeds[:1]
    *said, last = [*filter(None, (_speed(speed, report) for speed in speeds)), _size(model)]
    return f"{', '.join(said)} and {last}" if said else last


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
        return f"{100 * kept.value:.1f} %{_bounds(kept, 100)} of {_quality(report)}"
    if model.agreement is not None:
        return f"with the same likeliest prediction at {100 * model.agreement.top_1:.1f} % of {model.agreement.places} places"
    if model.vectors is not None:
        nearest = f"{100 * model.vectors.neighbours:.1f} % of each text's {model.vectors.k} nearest the same"
        return f"with {nearest}, and a rank correlation of similarities of {model.vectors.rank_correlation:.2f}"
    return "and what it lost is not known"


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
