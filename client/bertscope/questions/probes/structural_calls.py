# Generated from structural_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that train structural probes: `train_structural_probe`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.questions.probes.probes import Pooling
from bertscope.questions.probes.structural_probes import (
    Quantity,
    StructuralProbeAssembler,
    StructuralProbeProgress,
    StructuralProbeResult,
    with_trees,
)
from bertscope.questions.probes.tree_texts import TreeText
from bertscope.rpc.async_connection import AsyncConnection
from bertscope.rpc.async_streams import last
from bertscope.v1 import representation_structural_probes_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncStructuralProbeCalls(AsyncConnection):
    """The methods of `AsyncClient` that train structural probes."""

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

        A probe is a linear map to `rank` dimensions (64, or the length of a state) under which squared distances between words
        are those in the sentence's tree, or with `quantity` "depth" squared norms are the words' depths. `dev` decides when
        training ends, a tenth of `train` unless given; scores are of `test`, or of `dev` without it. `pooling` makes one vector
        of a word's pieces: "mean", "first" or "last". `max_epochs` (40) and `patience` (4) end training.
        `seeds` probes of each layer differ in what `seed` and the numbers after it draw. `truncate` cuts long texts;
        `memory_bytes` bounds the server's memory for states, which go to its disk beyond that.

        All texts go in one call: 100,000 of them with 1,000,000 words at most, 512 in a text, and no more bytes than the server
        takes (16 MiB). An exception in `on_progress`, or Ctrl-C, ends it.
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
