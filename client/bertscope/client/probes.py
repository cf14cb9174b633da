# Generated from bertscope/questions/probes/calls.py. Do not edit: change that file, and run `make client`.
# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that train probes: `train_probe`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.client.connection import Connection
from bertscope.client.streams import last
from bertscope.questions.probes.probe_replies import ProbeAssembler
from bertscope.questions.probes.probe_requests import with_probe_texts
from bertscope.questions.probes.probes import Pooling, ProbeEnding, ProbeProgress, ProbeResult
from bertscope.v1 import representation_probes_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.labelled_texts import ProbeText
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class ProbeCalls(Connection):
    """The methods of `Client` that train probes."""

    def train_probe(
        self,
        train: ProbeText | Iterable[ProbeText],
        *,
        dev: ProbeText | Iterable[ProbeText] = (),
        test: ProbeText | Iterable[ProbeText] = (),
        labels: str | Iterable[str] | None = None,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        pooling: Pooling = "mean",
        l2: float | None = None,
        max_epochs: SupportsIndex | None = None,
        patience: SupportsIndex | None = None,
        ending: ProbeEnding = "dev",
        hidden_units: SupportsIndex = 0,
        mix: bool = False,
        seeds: SupportsIndex = 1,
        seed: SupportsIndex = 0,
        weights: bool = False,
        truncate: bool = False,
        memory_bytes: SupportsIndex | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: Callable[[ProbeProgress], object] | None = None,
        timeout: float | None = None,
    ) -> ProbeResult:
        """Trains a probe on the states of each layer, on the server, and the same on a control task.

        `dev` decides when training ends, a tenth of `train` unless given; scores are of `test`, or of `dev` without it.
        `labels` name the classes, those of the texts unless given. `pooling` makes one vector of a word's pieces: "mean",
        "first" or "last". `l2` is 1 / C of scikit-learn's LogisticRegression (1). Training ends after `max_epochs` (40), or
        when no probe has got better on `dev` for `patience` (4) of them; with `ending="minimum"` at the minimum of what it
        minimises, that of scikit-learn's, or after `max_epochs` (800). `hidden_units` is the size of a hidden layer, 0 for
        linear probes. `mix` also trains probes on weighted means of layers (Tenney, Das and Pavlick 2019).
        `seeds` probes of each layer differ in what `seed` and the numbers after it draw. `weights` are sent if asked for.
        `truncate` cuts long texts; `memory_bytes` bounds the server's memory for states, which go to its disk beyond that.

        All texts go in one call: 100,000 of them with 1,000,000 labels at most, and no more bytes than the server takes (16
        MiB). An exception in `on_progress`, or Ctrl-C, ends it.
        """
        request = with_probe_texts(
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
                mix=mix,
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
            labels=labels,
        )
        messages = self._stream(request, representation_probes_pb2.TrainProbeResponse, timeout)
        return last(messages, ProbeAssembler(request).add, on_progress, ProbeResult, "training without a report")
