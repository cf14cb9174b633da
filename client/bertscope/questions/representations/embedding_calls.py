# Generated from embedding_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for vectors of texts: `embed_texts`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from functools import partial

from bertscope.questions.representations.embeddings import EmbeddedText, EmbeddedTexts, read_embedded_texts
from bertscope.rpc.async_many_texts import AsyncManyTexts
from bertscope.rpc.async_streams import whole
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import representation_states_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.choices import StatePooling
from bertscope.values.messages import Inputs, asked_inputs, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncEmbeddingCalls(AsyncManyTexts):
    """The methods of `AsyncClient` that make vectors of texts."""

    def embed_texts_stream(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        pooling: StatePooling | None = None,
        normalize: bool | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[EmbeddedText, None]:
        """Makes one vector of each text or pair: the states of its tokens in the last layer, joined.

        `pooling` is "first", "last", "mean", "max", or "declared": what the model's folder declares for sentence-transformers,
        with its prompt and its most tokens of a text. `vectors` of the result is [texts, size]. Raises Unimplemented for a
        model that shows no hidden states, or declares a pooling that can't be used.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            pooling: How the states of a text's tokens in the last layer become one vector. None means "declared" for a model
                whose folder declares a pooling, else "mean".
            normalize: True: vectors are divided by their length, so that the product of two is their cosine. None means what
                the folder declares with "declared", else False.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, or than its folder declares, and say so. False: such
                a text is an error.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            representation_states_pb2.EmbedTextsRequest,
            model=model,
            pooling=pooling,
            normalize=normalize,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._answers(
            asked_inputs(inputs),
            partial(with_items, request, "inputs"),
            representation_states_pb2.EmbedTextsResponse,
            read_embedded_texts,
            timeout,
            large=bool(request.reference_texts),
            on_rejected=on_rejected,
        )

    embed_texts = whole(embed_texts_stream, EmbeddedTexts)
