# Generated from bertscope/questions/attention/comparison_calls.py. Do not edit: change that file, and run `make client`.
"""Calls that compare attention: `compare_attention`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from bertscope.client.many_texts import ManyTexts, OnTexts
from bertscope.questions.attention.comparison import AttentionComparison, compare_attention_request, read_comparison
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import attention_statistics_pb2
from bertscope.values.messages import Inputs, Interventions, asked_inputs, text_of, with_items
from bertscope.values.models import Model


class AttentionComparisonCalls(ManyTexts):
    """The methods of `Client` that compare attention."""

    def compare_attention(
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
        request = compare_attention_request(
            model=model,
            other_model=other_model,
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
        return self._sum(answers, AttentionComparison.merge, asked.total, on_progress)
