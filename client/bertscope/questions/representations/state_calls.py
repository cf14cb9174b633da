"""Calls for what layers hold: `extract_hidden_states`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from functools import partial

from bertscope.questions.representations.lens import ToRead, asked_readings
from bertscope.questions.representations.states import HiddenStates, StatesAssembler, with_texts
from bertscope.rpc.async_extraction import AsyncTensorStreams
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import representation_states_pb2
from bertscope.values.choices import DataType, StatePooling, StateQuantity, StateUnit
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncStatesCalls(AsyncTensorStreams):
    """The methods of `AsyncClient` about hidden states."""

    def extract_hidden_states(
        self,
        inputs: ToRead | Iterable[ToRead],
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        unit: StateUnit = "piece",
        pooling: StatePooling | None = None,
        quantity: StateQuantity = "hidden",
        dtype: DataType = "float32",
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[HiddenStates, None]:
        """Streams the hidden states of texts, each as soon as it is complete.

        A tuple of two strings is one pair of texts; a list or a generator is any number of texts or pairs. `layers` choose and
        order the slices, all unless set: 0 is the embeddings, k the output of layer k - 1, up to the number of layers. `dtype`
        is "float32", "float16" or "bfloat16" (half the bytes on the wire). States are [layers, rows, hidden_size], one array
        for each text and no more memory than that.

        A row is a `unit`: a "piece" of the vocabulary, a "word", a "span" that the text marks (`StatesInput`), or the "text".
        `pooling` joins the pieces of a row: "mean" unless set, "first" ([CLS] of a text), "last" or "max"; "declared" is the
        pooling of a text that a folder of sentence-transformers declares, with its normalisation and its prompt, at the last
        layer. A text's tokens include the special ones.

        `quantity` is what is read of each token: "hidden" states; "head_contexts", the context A V of each head, [layers, rows,
        heads, head_size]; or "feed_forward_activations", what the second matrix of the feed-forward block reads, [layers, rows,
        activations], which PyTorch alone shows. Layers of the last two are the model's, from 0 to the number of layers - 1.

        A text that the server rejects (too long, empty) is an error, unless `on_rejected` takes its index and the error: then
        it is left out. The call begins when the first states are requested; more texts than a call takes go in one after the
        other, within one `timeout`. Closing the generator cancels it. If the server goes away meanwhile, the missing texts are
        requested again, from another server if there is one.
        """
        request = request_of(
            representation_states_pb2.ExtractHiddenStatesRequest,
            model=model,
            layers=layers,
            unit=unit,
            pooling="mean" if pooling is None and unit != "piece" else pooling,
            quantity=quantity,
            dtype=dtype,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        response = representation_states_pb2.ExtractHiddenStatesResponse
        return self._extract(
            partial(with_texts, request), response, StatesAssembler, asked_readings(inputs), timeout, on_rejected
        )
