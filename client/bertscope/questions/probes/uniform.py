"""Declares the calls that train probes: `train_probe`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.probes.probe_replies import ProbeAssembler
from bertscope.questions.probes.probe_requests import with_probe_texts
from bertscope.questions.probes.probes import Pooling, ProbeEnding, ProbeProgress, ProbeResult
from bertscope.rpc.uniform import trained
from bertscope.values.labelled_texts import ProbeText


class ProbeCalls(Protocol):
    """The methods of `AsyncClient` that train probes."""

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
