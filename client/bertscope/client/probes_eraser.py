# Generated from bertscope/questions/probes/eraser_calls.py. Do not edit: change that file, and run `make client`.
# Generated from eraser_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that train erasers: `train_eraser`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.client.connection import Connection
from bertscope.client.streams import last
from bertscope.questions.probes.eraser_replies import EraserAssembler
from bertscope.questions.probes.erasers import Eraser, EraserMethod
from bertscope.questions.probes.probe_requests import with_erased_texts
from bertscope.questions.probes.probes import Pooling, ProbeProgress
from bertscope.v1 import representation_eraser_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.labelled_texts import ProbeText
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class EraserCalls(Connection):
    """The methods of `Client` that train erasers."""

    def train_eraser(
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
        return last(messages, EraserAssembler(request).add, on_progress, Eraser, "training without a report")
