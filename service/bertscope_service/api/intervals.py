"""Metrics and their intervals: bertscope.v1.Metric, Bootstrap, IntervalMethod and NoInterval."""

from __future__ import annotations

from bertscope.v1 import ablation_pb2

from bertscope_service.analyses.intervals import IntervalMethod, NoInterval
from bertscope_service.analyses.metrics import Bootstrap, Metric
from bertscope_service.api import limits as bounds
from bertscope_service.api.enums import numbers
from bertscope_service.errors import InvalidArgument

METRICS = numbers(Metric, ablation_pb2.Metric, "METRIC_")
METHODS = {None: 0} | numbers(IntervalMethod, ablation_pb2.IntervalMethod, "INTERVAL_METHOD_")
NO_INTERVALS = {None: 0} | numbers(NoInterval, ablation_pb2.NoInterval, "NO_INTERVAL_")
TAIL_RESAMPLES = 10
"""Default number of resamples outside of an interval, on both sides together."""


def parse_bootstrap(given: ablation_pb2.Bootstrap, field: str) -> Bootstrap:
    """Converts the request's bootstrap. Raises InvalidArgument; `field` is the path of the message."""
    usual = Bootstrap()
    confidence = given.confidence if given.HasField("confidence") else usual.confidence
    # A higher confidence takes more resamples.
    enough = max(usual.resamples, round(TAIL_RESAMPLES / (1 - confidence)))
    resamples = given.resamples if given.HasField("resamples") else enough
    return Bootstrap(resamples, given.seed, confidence)


def check_draws(bootstrap: Bootstrap, items: int, field: str = "bootstrap") -> None:
    """Raises InvalidArgument for intervals that would take seconds each; `field` is the path of the message."""
    if bootstrap.resamples * items > bounds.MAX_DRAWS:
        most = bounds.MAX_DRAWS // items
        message = f"{field}.resamples is {bootstrap.resamples}; with {items} items use at most {most}"
        raise InvalidArgument(f"{field}.resamples", message, "TOO_MANY_DRAWS", limit=most)


def render_bootstrap(bootstrap: Bootstrap) -> ablation_pb2.Bootstrap:
    """Renders all fields, defaults too."""
    return ablation_pb2.Bootstrap(resamples=bootstrap.resamples, seed=bootstrap.seed, confidence=bootstrap.confidence)
