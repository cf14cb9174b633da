"""Units of the columns of tables, for heads that are read without the documentation. The contract says what each number is."""

from collections.abc import Mapping

NATS = (
    "log_likelihood", "log_probability", "mean_log_probability", "prior_log_probability", "answer_log_probability", "log_odds",
    "surprisal", "entropy", "first_special_entropy", "divergence", "divergence_before", "loss", "logit", "right_score",
    "other_score", "mean_difference", "baseline_right_score", "baseline_other_score", "baseline_difference", "added", "ablated",
    "coded", "mean", "zero",
)  # fmt: skip
UNITS: Mapping[str, str] = {
    **dict.fromkeys(NATS, "nats"),
    **dict.fromkeys(("bits", "control_bits", "surprisal_bits"), "bits"),
    **dict.fromkeys(("start", "end", "partner_start", "partner_end", "neighbour_start"), "code points"),
    "distance": "tokens",
    "offset": "words",
}
"""The unit by the name of a column. Shares, counts and correlations have none."""

METRICS: Mapping[str, str] = {"loss": "nats", "divergence": "nats"}
"""The unit of a column of rows whose numbers are of several metrics: it stands with the metric's name."""


def unit(column: str, units: Mapping[str, str]) -> str:
    """Returns a column's unit, or "" if it has none. `units` of a table go before the usual ones, and a standard error
    has that of its estimate."""
    known = {**UNITS, **units}
    for suffix in ("", "_error"):
        if column.endswith(suffix) and (name := column.removesuffix(suffix)) in known:
            return known[name]
    return ""
