# Generated from statistics_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that describe and compare attention: `describe_attention`, `compare_attention`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from bertscope.questions.attention.comparison import AttentionComparison, read_comparison
from bertscope.questions.attention.description import AttentionDescription, read_description
from bertscope.rpc.async_many_texts import AsyncManyTexts, OnTexts
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import attention_statistics_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.choices import Quantity
from bertscope.values.messages import Inputs, Numbers, asked_inputs, text_of, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncAttentionStatisticsCalls(AsyncManyTexts):
    """The methods of `AsyncClient` that describe and compare attention."""

    async def describe_attention(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        punctuation: str | Iterable[str] | None = None,
        head_distances: bool = False,
        quantity: Quantity = "weights",
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AttentionDescription:
        """Describes what every head attends to: statistics, pattern classes and, if requested, distances between heads.

        The maps stay on the server, which sends sums over texts. A tuple of two strings is one pair of texts; a list or a
        generator is any number of texts or pairs, asked as in `fill_mask`. `layers` are all unless given, `punctuation` "." and
        "," (vocabulary entries as texts write them). `head_distances` takes time proportional to the square of the number of
        heads. `quantity` is as in `extract_attention`, any but "value_zeroing"; rows of norms are divided by their sums.

        `on_progress` is called after each call with a `TextsProgress`. A text that the server rejects (too long, empty) is an
        error, unless `on_rejected` takes its index and the error: then it is left out.
        """
        request = request_of(
            attention_statistics_pb2.DescribeAttentionRequest,
            model=model,
            layers=layers,
            punctuation=punctuation,
            head_distances=head_distances,
            quantity=quantity,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        asked = asked_inputs(inputs)
        answers = self._answers(
            asked,
            partial(with_items, request, "inputs"),
            attention_statistics_pb2.DescribeAttentionResponse,
            lambda _, reply: [read_description(reply, request)],
            timeout,
            pace=self._pace(text_of, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return await self._sum(answers, AttentionDescription.merge, asked.total, on_progress)

    async def compare_attention(
        self,
        inputs: Inputs,
        other_model: str | Model | None = None,
        *,
        model: str | Model | None = None,
        punctuation: str | Iterable[str] | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AttentionComparison:
        """Compares the maps of two models, such as a model and its fine-tuned copy, head by head.

        `model` runs untouched, `other_model` under the interventions; without `other_model` it is the same model, which needs
        interventions then. Both need the same vocabulary, layers and heads. The maps stay on the server, which sends sums over
        texts. Inputs, `punctuation`, `on_progress` and `on_rejected` are as in `describe_attention`.
        """
        request = request_of(
            attention_statistics_pb2.CompareAttentionRequest,
            other_model=other_model,
            model=model,
            punctuation=punctuation,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        asked = asked_inputs(inputs)
        answers = self._answers(
            asked,
            partial(with_items, request, "inputs"),
            attention_statistics_pb2.CompareAttentionResponse,
            lambda _, reply: [read_comparison(reply)],
            timeout,
            pace=self._pace(text_of, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return await self._sum(answers, AttentionComparison.merge, asked.total, on_progress)
