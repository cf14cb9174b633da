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
