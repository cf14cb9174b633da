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
