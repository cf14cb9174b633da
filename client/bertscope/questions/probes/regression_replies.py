"""Reads the stream of a TrainProbe call without labels: probes of numbers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.questions.probes.probe_replies import Assembler, shared_fields
from bertscope.questions.probes.regression import LayerRegression, RegressionResult
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from bertscope.v1.representation_probes_pb2 import LayerProbes, ProbeReport
from bertscope.values import messages as wire
from bertscope.values.intervals import Interval, ratio_interval


class RegressionAssembler(Assembler[RegressionResult]):
    """The stream of a call whose spans have numbers."""

    def _result(self, report: ProbeReport) -> RegressionResult:
        shared = shared_fields(report, self._weights)
        texts = np.array([(each.spans, each.squares) for each in report.values], dtype=np.float64).reshape(-1, 2)
        if texts[:, 0].sum() != getattr(report, shared["scored"]).spans or any(
            len(layer.errors) != len(texts) or not layer.task[0].dev.variance >= 0 for layer in report.layers
        ):
            raise InvalidReply("the server sent errors of other texts than it scored")
        layers = tuple(_regressed(layer, texts, shared["scored"]) for layer in report.layers)
        return wire.read(RegressionResult, report, **shared, layers=layers, squares=texts[:, 1].copy())


def _regressed(layer: LayerProbes, texts: npt.NDArray[np.float64], part: str) -> LayerRegression:
    """Reads the regressions of a layer. texts: [texts, 2], the spans and the squared differences from the mean of each."""
    task, control = ([_r_squared(getattr(run, part)) for run in runs] for runs in (layer.task, layer.control))
    spans, squares = texts.T
    errors = np.array(layer.errors) / len(layer.task)
    share, mean = (_ratio_interval(errors, of) for of in (squares, spans))
    r_squared, by_chance = float(np.mean(task)), float(np.mean(control))
    return LayerRegression(
        layer=layer.layer,
        r_squared=r_squared,
        interval=None if share is None else Interval(1 - share.high, 1 - share.low),
        rmse=math.sqrt(np.mean([getattr(run, part).loss for run in layer.task])),
        rmse_interval=None if mean is None else Interval(*map(math.sqrt, mean)),
        control_r_squared=by_chance,
        selectivity=r_squared - by_chance,
        dev_rmse=math.sqrt(layer.task[0].dev.loss),
        spread=(min(task), max(task)),
        best_epochs=tuple(run.best_epoch for run in layer.task),
        gradient=max((run.gradient for run in layer.task if run.HasField("gradient")), default=None),
        errors=errors,
    )


def _r_squared(score: probes_pb2.ProbeScore) -> float:
    """Returns the share of the variance that is explained; NaN where the scored numbers are all the same."""
    return 1 - score.loss / score.variance if score.variance else math.nan


def _ratio_interval(errors: npt.NDArray[np.float64], of: npt.NDArray[np.float64]) -> Interval | None:
    """Returns the interval of sum(errors) / sum(of) over texts, which is at most the largest ratio of one of them."""
    largest = float((errors[of > 0] / of[of > 0]).max(initial=0.0))
    return ratio_interval(errors, of, (0.0, largest)) if largest else None
