"""Declares the calls that train probes and erasers, and apply kept ones: `train_probe` and others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

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
from bertscope.rpc.uniform import total, trained
from bertscope.values.labelled_texts import ProbeText, UnlabelledText, ValuedText
from bertscope.values.messages import Numbers


class ProbeCalls(Protocol):
    """The methods of `AsyncClient` that train and apply probes and erasers."""

    @trained(
        with_probe_texts,
        ProbeAssembler,
        ProbeProgress,
        lacking="training without a report",
        order="dev test labels model layers pooling l2 max_epochs patience ending "
        "hidden_units mix seeds seed weights truncate memory_bytes",
    )
    def train_probe(
        self,
        train: ProbeText | Iterable[ProbeText],
        *,
        dev: ProbeText | Iterable[ProbeText] = (),
        test: ProbeText | Iterable[ProbeText] = (),
        labels: str | Iterable[str] | None = None,
        pooling: Pooling = "mean",
        ending: ProbeEnding = "dev",
        hidden_units: SupportsIndex = 0,
        seeds: SupportsIndex = 1,
        seed: SupportsIndex = 0,
    ) -> ProbeResult:
        """Trains a probe on the states of each layer, on the server, and the same on a control task.

        Scores are of `test`, or of `dev` without it. Training ends after `max_epochs`, or when no probe has got better on `dev`
        for `patience` of them; with `ending="minimum"` at the minimum of what it minimises, that of scikit-learn's
        LogisticRegression.

        All texts go in one call, of no more bytes than the server takes (16 MiB). Ctrl-C ends it.

        Arguments:
            labels: Names of the classes, 2 to 1,000; None means those of the texts.
        """

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

    @trained(
        with_trees,
        StructuralProbeAssembler,
        StructuralProbeProgress,
        lacking="training without a report",
        order="quantity dev test model layers rank pooling max_epochs patience seeds seed truncate memory_bytes",
    )
    def train_structural_probe(
        self,
        train: TreeText | Iterable[TreeText],
        *,
        quantity: Quantity = "distance",
        dev: TreeText | Iterable[TreeText] = (),
        test: TreeText | Iterable[TreeText] = (),
        pooling: Pooling = "mean",
        seeds: SupportsIndex = 1,
        seed: SupportsIndex = 0,
    ) -> StructuralProbeResult:
        """Trains a structural probe on the states of each layer, on the server (Hewitt and Manning 2019).

        A probe is a linear map B to `rank` dimensions under which squared distances between words are those in the sentence's
        tree, or with `quantity` "depth" squared norms are the words' depths. Scores are of `test`, or of `dev` without it.

        All texts go in one call, of no more bytes than the server takes (16 MiB) and 512 words in a text. Ctrl-C ends it.
        """

    @trained(
        with_erased_texts,
        EraserAssembler,
        ProbeProgress,
        lacking="training without a report",
        order="method test labels model layers rank pooling seed truncate memory_bytes",
    )
    def train_eraser(
        self,
        train: ProbeText | Iterable[ProbeText],
        *,
        method: EraserMethod = "leace",
        test: ProbeText | Iterable[ProbeText] = (),
        labels: str | Iterable[str] | None = None,
        pooling: Pooling = "mean",
        seed: SupportsIndex = 0,
    ) -> Eraser:
        """Finds, for the states of each layer, a linear map that erases the classes of marked words, on the server.

        `method` "leace" is the smallest change after which no linear probe tells the classes apart (Belrose et al. 2023,
        theorem 4.3); "inlp" takes directions away, probe after probe, until a probe does no better than the most frequent class
        on a tenth of `train` (Ravfogel et al. 2020, section 4). `Eraser.change` makes a change of it for all other calls, and
        `Eraser.random_change` one of a random subspace to compare with (amnesic probing, Elazar et al. 2021). Probes before and
        after are linear, trained to the minimum, and scored on `test`.

        All texts go in one call, of no more bytes than the server takes (16 MiB). Ctrl-C ends it.

        Arguments:
            labels: Names of the classes, 2 to 257; None means those of the texts.
        """

    @total(
        asked_span_texts,
        read_applied,
        text=lambda asked: asked.text.text,
        build=with_span_texts,
        finish=with_probe,
        without="labels pooling weights_digest",
        order="model layers top_k any_weights truncate",
    )
    def apply_probe(
        self,
        probe: KeptProbe,
        texts: ProbeText | UnlabelledText | Iterable[ProbeText | UnlabelledText],
        *,
        layers: Numbers | None = None,
        top_k: SupportsIndex = 1,
        any_weights: bool = False,
    ) -> AppliedProbe:
        """Classifies the words or spans of texts by probes that were trained before, and counts how often they are right.

        Texts without a span are not sent. A span whose label the probe does not have is classified, and counted in
        `unseen_labels` rather than scored. Spans in which no piece begins are left out and counted.

        Arguments:
            probe: The probe, as `load_probe` reads it.
            texts: Any number of `ProbeText`, or of `UnlabelledText`, whose classes are not known.
            layers: Layers whose probes are used; None means all of the probe's.
            any_weights: States of another model mean something else: unless this is set, a model with other weights than the
                probe was trained on is FailedPrecondition.
        """
