# Generated from regression_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that train probes of numbers: `train_regression_probe`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.questions.probes.probe_requests import with_valued_texts
from bertscope.questions.probes.probes import Pooling, ProbeEnding, ProbeProgress
from bertscope.questions.probes.regression import RegressionResult
from bertscope.questions.probes.regression_replies import RegressionAssembler
from bertscope.rpc.async_connection import AsyncConnection
from bertscope.rpc.async_streams import last
from bertscope.v1 import representation_probes_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.labelled_texts import ValuedText
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncRegressionProbeCalls(AsyncConnection):
    """The methods of `AsyncClient` that train probes of numbers."""

    async def train_regression_probe(
        self,
        train: ValuedText | Iterable[ValuedText],
        *,
        dev: ValuedText | Iterable[ValuedText] = (),
        test: ValuedText | Iterable[ValuedText] = (),
        model: str | Model | None = None,
        layers: Numbers | None = None,
        pooling: Pooling = "mean",
        l2: float | None = None,
        max_epochs: SupportsIndex | None = None,
        patience: SupportsIndex | None = None,
        ending: ProbeEnding = "dev",
        hidden_units: SupportsIndex = 0,
        seeds: SupportsIndex = 1,
        seed: SupportsIndex = 0,
        weights: bool = False,
        truncate: bool = False,
        memory_bytes: SupportsIndex | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: Callable[[ProbeProgress], object] | None = None,
        timeout: float | None = None,
    ) -> RegressionResult:
        """Trains a probe that predicts a number of each word or span, on the states of each layer, on the server, and the same
        on a control task: least squares on standardised states and numbers.

        `l2` is alpha of scikit-learn's Ridge (1); with `ending="minimum"` the probes are Ridge's, otherwise `dev`, a tenth of
        `train` unless given, ends training. The other arguments and limits are those of `train_probe`.
        """
        request = with_valued_texts(
            request_of(
                representation_probes_pb2.TrainProbeRequest,
                model=model,
                layers=layers,
                pooling=pooling,
                l2=l2,
                max_epochs=max_epochs,
                patience=patience,
                ending=ending,
                hidden_units=hidden_units,
                seeds=seeds,
                seed=seed,
                weights=weights,
                truncate=truncate,
                memory_bytes=memory_bytes,
                interventions=interventions,
                reference_texts=reference_texts,
            ),
            train,
            dev=dev,
            test=test,
        )
        messages = self._stream(request, representation_probes_pb2.TrainProbeResponse, timeout)
        return await last(
            messages, RegressionAssembler(request).add, on_progress, RegressionResult, "training without a report"
        )
