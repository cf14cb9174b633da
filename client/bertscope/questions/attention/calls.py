"""Calls for attention: `extract_attention`, `describe_attention`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from functools import partial

from bertscope.questions.attention.maps import AttentionAssembler, AttentionMaps
from bertscope.rpc.async_extraction import AsyncTensorStreams
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import attention_pb2
from bertscope.values import validation
from bertscope.values.choices import DataType, Quantity
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Inputs, Numbers, asked_inputs, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncAttentionCalls(AsyncTensorStreams):
    """The methods of `AsyncClient` that extract and describe attention."""

    def extract_attention(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        heads: Numbers | None = None,
        words: bool = False,
        quantity: Quantity = "weights",
        dtype: DataType = "float32",
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[AttentionMaps, None]:
        """Streams the attention maps of texts, each as soon as it is complete.

        A tuple of two strings is one pair of texts; a list or a generator is any number of texts or pairs. `layers` and `heads`
        choose and order the slices, all unless set; `words` joins pieces to words; `dtype` is "float32" or "float16" (half the
        bytes). Maps are [layers, heads, L, L], one array for each text and no more memory than that.

        `quantity` is what the numbers are: "weights"; "norms" of weighted vectors (Kobayashi et al. 2020); "layer_norms", those
        of their sum over heads, and "layer_output_norms", with residual connection and layer normalisation (2021); "rollout"
        and "rollout_without_residual" (Abnar & Zuidema 2020); "value_zeroing" (Mohebbi et al. 2023); "alti" (Ferrando et al.
        2022) and "globenc" (Modarressi et al. 2022), rollouts of whole layers, which are no attributions: they have no sign and
        no target. All but the first two are of whole layers: they take no `heads`, and have one map for each layer,
        `maps.layer(3)`.

        The call begins when the first maps are requested; more texts than a call takes go in one after the other, within one
        `timeout`. Closing the generator cancels it. If the server goes away meanwhile, the missing texts are requested again,
        from another server if there is one. `on_rejected` takes the index and the error of each text that the server rejects
        (too long, empty), which is then left out; without it the first one ends the stream.
        """
        request = request_of(
            attention_pb2.ExtractAttentionRequest,
            model=model,
            layers=layers,
            heads=heads,
            level="word" if validation.flag("words", words) else "piece",
            quantity=quantity,
            dtype=dtype,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        response, asked = attention_pb2.ExtractAttentionResponse, asked_inputs(inputs)
        return self._extract(partial(with_items, request, "inputs"), response, AttentionAssembler, asked, timeout, on_rejected)
