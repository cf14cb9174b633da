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

        Scores are of `test`, or of `dev` without it. Training ends after `max_epochs`, or when no probe has got better on `dev`
        for `patience` of them; with `ending="minimum"` at the minimum of what it minimises, that of scikit-learn's
        LogisticRegression.

        All texts go in one call, of no more bytes than the server takes (16 MiB). Ctrl-C ends it.

        Arguments:
            train: Texts to train on, with at least two classes or numbers between them; all three parts together have at most
                100,000 texts and 1,000,000 spans. Spans may overlap: a piece of a text may be in 4 of its spans on average, and
                in all texts together spans may have 250,000 pieces beyond that.
            dev: Texts that decide when training ends; empty splits a tenth of the training texts off, chosen by `seed`.
            test: Texts to test on; empty tests on none.
            labels: Names of the classes, 2 to 1,000; None means those of the texts.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers to probe: 0, the embeddings, to layers of the model, none twice; None means all.
            pooling: How a span's pieces become one vector: "mean", "first" or "last".
            l2: The penalty of weights: training minimises the mean cross-entropy in nats plus l2 / (2 n) times the sum of
                squared weights of n training spans, so that l2 is 1 / C of scikit-learn's LogisticRegression on standardised
                states. Of numbers it minimises half the mean squared error of the standardised numbers plus the same penalty:
                l2 is alpha of scikit-learn's Ridge, on standardised states as well. 0 to 1,000,000; None means 1.
            max_epochs: Most passes over the training spans (epochs), 1 to 1,000; None means 40, or 800 with "minimum". The
                first pass of a linear probe only measures its loss as it begins.
            patience: Training of a probe ends after so many epochs without a lower loss on the dev texts, 1 to 1,000; None
                means 4. Rejected with "minimum".
            ending: When training ends: "dev" or "minimum".
            hidden_units: Units of a hidden layer between state and classes, or number, 1 to 4,096, relu(state W + b) V + c
                (Hewitt and Liang 2019, section 3); 0, which "minimum" requires, means none: linear probes. Both matrices have
                the penalty.
            mix: True: also train a probe on the weighted mean of all layers asked for, and on that of the first 1, 2, ... of
                them (Tenney, Das and Pavlick 2019, section 3). Not with "minimum", and not of numbers.
            seeds: Number of probes of each layer that differ in their seed, 1 to 10.
            seed: Seed of the first: it draws the control task's labels, the initial weights, the order of spans, and the dev
                texts.
            weights: True: also send the weights of the first seed's probes.
            truncate: True: cut texts that are longer than the model reads; spans that are cut away are left out and counted.
                False: such a text is an error.
            memory_bytes: Most memory that the call takes for states and probes, bytes, 1 to the server's limit; None means that
                limit. States beyond it are kept in a file.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            timeout: Seconds for the call; None means no limit.
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
