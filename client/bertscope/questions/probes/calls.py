# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that train probes and erasers, and apply kept ones: `train_probe` and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import SupportsIndex

from bertscope.questions.probes.applied_probes import AppliedProbe, asked_span_texts, read_applied, with_probe, with_span_texts
from bertscope.questions.probes.erasers import Eraser, EraserAssembler, EraserMethod
from bertscope.questions.probes.kept_probes import KeptProbe
from bertscope.questions.probes.probe_messages import ProbeAssembler, with_erased_texts, with_probe_texts, with_valued_texts
from bertscope.questions.probes.probes import Pooling, ProbeEnding, ProbeProgress, ProbeResult
from bertscope.questions.probes.regression import RegressionAssembler, RegressionResult
from bertscope.questions.probes.structural_probes import (
    Quantity,
    StructuralProbeAssembler,
    StructuralProbeProgress,
    StructuralProbeResult,
    TreeText,
    with_trees,
)
from bertscope.rpc.async_many_texts import AsyncManyTexts, OnTexts
from bertscope.rpc.async_streams import last
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import (
    representation_eraser_pb2,
    representation_probe_application_pb2,
    representation_probes_pb2,
    representation_structural_probes_pb2,
)
from bertscope.values.interventions import Interventions
from bertscope.values.labelled_texts import ProbeText, UnlabelledText, ValuedText
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncProbeCalls(AsyncManyTexts):
    """The methods of `AsyncClient` that train and apply probes and erasers."""

    async def train_probe(
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
        return await last(messages, ProbeAssembler(request).add, on_progress, ProbeResult, "training without a report")

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

        With `ending="minimum"` the probes are scikit-learn's Ridge. The other limits are those of `train_probe`.

        Arguments:
            train: Texts to train on, with at least two classes or numbers between them; all three parts together have at most
                100,000 texts and 1,000,000 spans. Spans may overlap: a piece of a text may be in 4 of its spans on average, and
                in all texts together spans may have 250,000 pieces beyond that.
            dev: Texts that decide when training ends; empty splits a tenth of the training texts off, chosen by `seed`.
            test: Texts to test on; empty tests on none.
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

    async def train_structural_probe(
        self,
        train: TreeText | Iterable[TreeText],
        *,
        quantity: Quantity = "distance",
        dev: TreeText | Iterable[TreeText] = (),
        test: TreeText | Iterable[TreeText] = (),
        model: str | Model | None = None,
        layers: Numbers | None = None,
        rank: SupportsIndex | None = None,
        pooling: Pooling = "mean",
        max_epochs: SupportsIndex | None = None,
        patience: SupportsIndex | None = None,
        seeds: SupportsIndex = 1,
        seed: SupportsIndex = 0,
        truncate: bool = False,
        memory_bytes: SupportsIndex | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: Callable[[StructuralProbeProgress], object] | None = None,
        timeout: float | None = None,
    ) -> StructuralProbeResult:
        """Trains a structural probe on the states of each layer, on the server (Hewitt and Manning 2019).

        A probe is a linear map B to `rank` dimensions under which squared distances between words are those in the sentence's
        tree, or with `quantity` "depth" squared norms are the words' depths. Scores are of `test`, or of `dev` without it.

        All texts go in one call, of no more bytes than the server takes (16 MiB) and 512 words in a text. Ctrl-C ends it.

        Arguments:
            train: Texts to train on; all three parts together have at most 100,000 texts and 1,000,000 words.
            quantity: The quantity: "distance" or "depth".
            dev: Texts that decide when training ends; empty splits a tenth of the training texts off, chosen by `seed`.
            test: Texts to test on; empty tests on none.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers to probe: 0, the embeddings, to layers of the model, none twice; None means all.
            rank: Rows of B, 1 to the length of a state; None means 64, or the length of a state if that is less.
            pooling: How a word's pieces become one vector: "mean", "first" or "last".
            max_epochs: Most passes over the training texts, 1 to 1,000; None means 40.
            patience: Training of a probe ends after so many epochs without a lower loss on the dev texts, 1 to 1,000; None
                means 4.
            seeds: Number of probes of each layer that differ in their seed, 1 to 10.
            seed: Seed of the first: it draws the initial B, the control's projection, the order of texts, and the dev texts.
            truncate: True: cut texts that are longer than the model reads; words that are cut away are left out and counted.
                False: such a text is an error.
            memory_bytes: Most memory that the call takes for states and probes, bytes, 1 to the server's limit; None means that
                limit. States beyond it are kept in a file.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            timeout: Seconds for the call; None means no limit.
        """
        request = with_trees(
            request_of(
                representation_structural_probes_pb2.TrainStructuralProbeRequest,
                quantity=quantity,
                model=model,
                layers=layers,
                rank=rank,
                pooling=pooling,
                max_epochs=max_epochs,
                patience=patience,
                seeds=seeds,
                seed=seed,
                truncate=truncate,
                memory_bytes=memory_bytes,
                interventions=interventions,
                reference_texts=reference_texts,
            ),
            train,
            dev=dev,
            test=test,
        )
        messages = self._stream(request, representation_structural_probes_pb2.TrainStructuralProbeResponse, timeout)
        return await last(
            messages, StructuralProbeAssembler().add, on_progress, StructuralProbeResult, "training without a report"
        )

    async def train_eraser(
        self,
        train: ProbeText | Iterable[ProbeText],
        *,
        method: EraserMethod = "leace",
        test: ProbeText | Iterable[ProbeText] = (),
        labels: str | Iterable[str] | None = None,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        rank: SupportsIndex | None = None,
        pooling: Pooling = "mean",
        seed: SupportsIndex = 0,
        truncate: bool = False,
        memory_bytes: SupportsIndex | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: Callable[[ProbeProgress], object] | None = None,
        timeout: float | None = None,
    ) -> Eraser:
        """Finds, for the states of each layer, a linear map that erases the classes of marked words, on the server.

        `method` "leace" is the smallest change after which no linear probe tells the classes apart (Belrose et al. 2023,
        theorem 4.3); "inlp" takes directions away, probe after probe, until a probe does no better than the most frequent class
        on a tenth of `train` (Ravfogel et al. 2020, section 4). `Eraser.change` makes a change of it for all other calls, and
        `Eraser.random_change` one of a random subspace to compare with (amnesic probing, Elazar et al. 2021). Probes before and
        after are linear, trained to the minimum, and scored on `test`.

        All texts go in one call, of no more bytes than the server takes (16 MiB). Ctrl-C ends it.

        Arguments:
            train: Texts to train on, with at least two classes between them; all parts together have at most 100,000 texts and
                1,000,000 spans. Spans may overlap as in `train_probe`; none is a pair.
            method: How the map is found: "leace" or "inlp".
            test: Texts to test on; empty splits a fifth of the training texts off, chosen by `seed`.
            labels: Names of the classes, 2 to 257; None means those of the texts.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers whose states get an eraser: 0, the embeddings, to layers of the model, none twice; None means all.
            rank: The most dimensions that "inlp" takes away, 1 to 256 and at most the length of a state; None means 64, or that
                length. Rejected with "leace".
            pooling: How a span's pieces become one vector: "mean", "first" or "last".
            seed: Draws the test texts, and the random subspace that the eraser is compared with.
            truncate: True: cut texts that are longer than the model reads; spans that are cut away are left out and counted.
                False: such a text is an error.
            memory_bytes: Most memory that the call takes for states, bytes, 1 to the server's limit; None means that limit.
                States beyond it are kept in a file.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            timeout: Seconds for the call; None means no limit.
        """
        request = with_erased_texts(
            request_of(
                representation_eraser_pb2.TrainEraserRequest,
                method=method,
                model=model,
                layers=layers,
                rank=rank,
                pooling=pooling,
                seed=seed,
                truncate=truncate,
                memory_bytes=memory_bytes,
                interventions=interventions,
                reference_texts=reference_texts,
            ),
            train,
            test=test,
            labels=labels,
        )
        messages = self._stream(request, representation_eraser_pb2.TrainEraserResponse, timeout)
        return await last(messages, EraserAssembler(request).add, on_progress, Eraser, "training without a report")

    async def apply_probe(
        self,
        probe: KeptProbe,
        texts: ProbeText | UnlabelledText | Iterable[ProbeText | UnlabelledText],
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        top_k: SupportsIndex = 1,
        any_weights: bool = False,
        truncate: bool = False,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AppliedProbe:
        """Classifies the words or spans of texts by probes that were trained before, and counts how often they are right.

        Texts without a span are not sent. A span whose label the probe does not have is classified, and counted in
        `unseen_labels` rather than scored. Spans in which no piece begins are left out and counted.

        Arguments:
            probe: The probe, as `load_probe` reads it.
            texts: Any number of `ProbeText`, or of `UnlabelledText`, whose classes are not known.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers whose probes are used; None means all of the probe's.
            top_k: Number of most probable classes of each span in the reply, 1 to the number of classes. Spans times layers
                times `top_k` are at most 500,000.
            any_weights: States of another model mean something else: unless this is set, a model with other weights than the
                probe was trained on is FailedPrecondition.
            truncate: True: cut texts that are longer than the model reads; spans that are cut away are left out and counted.
                False: such a text is an error.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = with_probe(
            request_of(
                representation_probe_application_pb2.ApplyProbeRequest,
                model=model,
                top_k=top_k,
                truncate=truncate,
                interventions=interventions,
                reference_texts=reference_texts,
            ),
            probe,
            layers=layers,
            any_weights=any_weights,
        )
        asked = asked_span_texts(texts, probe)
        answers = self._answers(
            asked,
            partial(with_span_texts, request),
            representation_probe_application_pb2.ApplyProbeResponse,
            lambda items, reply: [read_applied(reply, request, items)],
            timeout,
            pace=self._pace(lambda asked: asked.text.text, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return await self._sum(answers, AppliedProbe.merge, asked.total, on_progress)
