"""Writes verdicts and numbers as a screen and a page show them."""

import math

from bertscope import Model
from bertscope.values.models import short_name

from bertscope_workbench.papers.estimates import Measured
from bertscope_workbench.papers.run import ClaimsRun
from bertscope_workbench.papers.verdicts import DISAGREE, FAILS, HOLDS, NOT_ASKED, UNKNOWN, Verdict

SIGNS: dict[Verdict, str] = {
    HOLDS: "✓",
    FAILS: "✗",
    UNKNOWN: "?",
    DISAGREE: "◐",
    "reproduced": "✓",
    "differs": "✗",
    "nothing to compare": "·",
    NOT_ASKED: "–",
}
"""Signs of verdicts, so that colour is not all that tells them apart."""


def model_names(run: ClaimsRun) -> list[str]:
    """Returns the models' names; of checkpoints with their steps."""
    return [short_name(each.model) + ("" if each.step is None else f", step {each.step:g}") for each in run.models]


def model_facts(model: Model) -> str:
    """Returns a model in one line."""
    return (
        f"{short_name(model)}: {model.architecture}, {model.layers} x {model.heads} heads, {model.hidden_size} wide, "
        f"{model.runtime} {model.precision} on {model.device}, weights {model.weights_digest[:19]}"
    )


def shown_number(value: float | None, unit: str = "") -> str:
    """Returns a number as the page shows it: shares in percent, others with three digits; a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"


def shown_chance(p_value: float) -> str:
    """Returns a p-value with four digits, a smaller one as less than these; empty for none."""
    if not math.isfinite(p_value):
        return ""
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.4f}"


def interval(measured: Measured, unit: str) -> str:
    """Returns a difference with its interval; shares in points of 100."""
    scale, end = (100, " points") if unit == "share" and measured.control is not None else (1, "")
    if unit == "share" and measured.control is None:
        scale, end = 100, " %"
    form = "+.1f" if scale == 100 else "+.3f"
    if not math.isfinite(measured.low):
        return f"{scale * measured.difference:{form}}{end}, no interval"
    return f"{scale * measured.difference:{form}} [{scale * measured.low:{form}}, {scale * measured.high:{form}}]{end}"
