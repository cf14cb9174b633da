"""Metrics and their intervals: bertscope.v1.Metric, Bootstrap, IntervalMethod and NoInterval."""

from __future__ import annotations

from bertscope.v1 import ablation_pb2

from bertscope_service.analyses.ablation import Bootstrap, Metric
from bertscope_service.analyses.intervals import IntervalMethod, NoInterval
from bertscope_service.api import limits as bounds
from bertscope_service.errors import InvalidArgument

METRICS = {
    Metric.LOSS: ablation_pb2.METRIC_LOSS,
    Metric.ACCURACY: ablation_pb2.METRIC_ACCURACY,
    Metric.RECIPROCAL_RANK: ablation_pb2.METRIC_RECIPROCAL_RANK,
    Metric.DIVERGENCE: ablation_pb2.METRIC_DIVERGENCE,
}
METHODS = {
    None: ablation_pb2.INTERVAL_METHOD_UNSPECIFIED,
    IntervalMethod.STUDENTIZED_BOOTSTRAP: ablation_pb2.INTERVAL_METHOD_STUDENTIZED_BOOTSTRAP,
    IntervalMethod.ADJUSTED_WALD: ablation_pb2.INTERVAL_METHOD_ADJUSTED_WALD,
    IntervalMethod.HYBRID_WILSON: ablation_pb2.INTERVAL_METHOD_HYBRID_WILSON,
    IntervalMethod.EXPANDED_PERCENTILE: ablation_pb2.INTERVAL_METHOD_EXPANDED_PERCENTILE,
}
NO_INTERVALS = {
    None: ablation_pb2.NO_INTERVAL_UNSPECIFIED,
    NoInterval.TOO_FEW_ITEMS: ablation_pb2.NO_INTERVAL_TOO_FEW_ITEMS,
    NoInterval.TOO_FEW_DIFFER: ablation_pb2.NO_INTERVAL_TOO_FEW_DIFFER,
    NoInterval.TOO_FEW_RESAMPLES: ablation_pb2.NO_INTERVAL_TOO_FEW_RESAMPLES,
    NoInterval.MEAN_NOT_POSITIVE: ablation_pb2.NO_INTERVAL_MEAN_NOT_POSITIVE,
}
TAIL_RESAMPLES = 10
"""Default number of resamples outside of an interval, on both sides together."""


def parse_bootstrap(given: ablation_pb2.Bootstrap, field: str) -> Bootstrap:
    """Converts the request's bootstrap. Raises InvalidArgument; `field` is the path of the message."""
    usual = Bootstrap()
    confidence = given.confidence if given.HasField("confidence") else usual.confidence
    if not bounds.MIN_CONFIDENCE <= confidence <= bounds.MAX_CONFIDENCE:
        message = f"{field}.confidence is {confidence}; use {bounds.MIN_CONFIDENCE} to {bounds.MAX_CONFIDENCE}"
        raise InvalidArgument(f"{field}.confidence", message, "CONFIDENCE_OUT_OF_RANGE")
    # A higher confidence takes more resamples.
    enough = max(usual.resamples, round(TAIL_RESAMPLES / (1 - confidence)))
    resamples = given.resamples if given.HasField("resamples") else enough
    if not bounds.MIN_RESAMPLES <= resamples <= bounds.MAX_RESAMPLES:
        message = f"{field}.resamples is {resamples}; use {bounds.MIN_RESAMPLES} to {bounds.MAX_RESAMPLES}"
        raise InvalidArgument(f"{field}.resamples", message, "RESAMPLES_OUT_OF_RANGE")
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
