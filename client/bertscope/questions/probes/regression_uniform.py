"""Declares the calls that train probes of numbers: `train_regression_probe`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.probes.probe_requests import with_valued_texts
from bertscope.questions.probes.probes import Pooling, ProbeEnding, ProbeProgress
from bertscope.questions.probes.regression import RegressionResult
from bertscope.questions.probes.regression_replies import RegressionAssembler
from bertscope.rpc.uniform import trained
from bertscope.values.labelled_texts import ValuedText


class RegressionProbeCalls(Protocol):
    """The methods of `AsyncClient` that train probes of numbers."""

    @trained(
        with_valued_texts,
        RegressionAssembler,
        ProbeProgress,
        rpc="TrainProbe",
        lacking="training without a report",
        without="labels mix",
        order="dev test model layers pooling l2 max_epochs patience ending "
        "hidden_units seeds seed weights truncate memory_bytes",
    )
    def train_regression_probe(
        self,
        train: ValuedText | Iterable[ValuedText],
        *,
        dev: ValuedText | Iterable[ValuedText] = (),
        test: ValuedText | Iterable[ValuedText] = (),
        pooling: Pooling = "mean",
        ending: ProbeEnding = "dev",
        hidden_units: SupportsIndex = 0,
        seeds: SupportsIndex = 1,
        seed: SupportsIndex = 0,
    ) -> RegressionResult:
        """Trains a probe that predicts a number of each word or span, on the states of each layer, on the server, and the same
        on a control task: least squares on standardised states and numbers.

        With `ending="minimum"` the probes are scikit-learn's Ridge. The other limits are those of `train_probe`.
        """
