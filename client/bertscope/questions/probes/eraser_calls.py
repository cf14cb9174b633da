# Generated from eraser_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that train erasers: `train_eraser`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.questions.probes.eraser_replies import EraserAssembler
from bertscope.questions.probes.erasers import Eraser, EraserMethod
from bertscope.questions.probes.probe_requests import with_erased_texts
from bertscope.questions.probes.probes import Pooling, ProbeProgress
from bertscope.rpc.async_connection import AsyncConnection
from bertscope.rpc.async_streams import last
from bertscope.v1 import representation_eraser_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.labelled_texts import ProbeText
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncEraserCalls(AsyncConnection):
    """The methods of `AsyncClient` that train erasers."""

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
        theorem 4.3); "inlp" takes directions away, probe after probe, up to `rank` (64), until a probe does no better than the
        most frequent class on a tenth of `train` (Ravfogel et al. 2020, section 4). `Eraser.change` makes a change of it for
        all other calls, and `Eraser.random_change` one of a random subspace, drawn by `seed`, to compare with (amnesic
        probing, Elazar et al. 2021).
        Probes before and after are linear, trained to the minimum, and scored on `test`, a fifth of `train` unless given.
        `labels` name the classes, at most 257, those of the texts unless given. `pooling` makes one vector of a word's pieces:
        "mean", "first" or "last". `truncate` cuts long texts; `memory_bytes` bounds the server's memory for states, which go to
        its disk beyond that.

        All texts go in one call: 100,000 of them with 1,000,000 labels at most, and no more bytes than the server takes (16
        MiB). An exception in `on_progress`, or Ctrl-C, ends it.
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
