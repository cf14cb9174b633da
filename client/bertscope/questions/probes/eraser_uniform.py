"""Declares the calls that train erasers: `train_eraser`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.probes.eraser_replies import EraserAssembler
from bertscope.questions.probes.erasers import Eraser, EraserMethod
from bertscope.questions.probes.probe_requests import with_erased_texts
from bertscope.questions.probes.probes import Pooling, ProbeProgress
from bertscope.rpc.uniform import trained
from bertscope.values.labelled_texts import ProbeText


class EraserCalls(Protocol):
    """The methods of `AsyncClient` that train erasers."""

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
