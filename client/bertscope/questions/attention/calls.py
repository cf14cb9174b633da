# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for attention: `extract_attention`, `describe_attention`, `score_relations` and others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from functools import partial

from bertscope.questions.attention.description import (
    AttentionComparison,
    AttentionDescription,
    read_comparison,
    read_description,
)
from bertscope.questions.attention.feature_scores import FeatureScores, read_feature_scores
from bertscope.questions.attention.maps import AttentionAssembler, AttentionMaps, with_level
from bertscope.questions.attention.marked_texts import (
    FeatureText,
    RelationText,
    asked_feature_texts,
    asked_relation_texts,
    with_feature_texts,
    with_relation_texts,
)
from bertscope.questions.attention.relation_scores import RelationScores, read_relation_scores
from bertscope.rpc.async_extraction import AsyncTensorStreams
from bertscope.rpc.async_many_texts import OnTexts
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import attention_pb2, attention_relations_pb2, attention_statistics_pb2
from bertscope.values.choices import DataType, Quantity
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Inputs, Numbers, asked_inputs, text_of, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncAttentionCalls(AsyncTensorStreams):
    """The methods of `AsyncClient` that extract, describe, compare and score attention."""

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

        Maps are [layers, heads, L, L], one array for each text and no more memory than that.

        `quantity` is what the numbers are: "weights"; "norms" of weighted vectors (Kobayashi et al. 2020); "layer_norms", those
        of their sum over heads, and "layer_output_norms", with residual connection and layer normalisation (2021); "rollout"
        and "rollout_without_residual" (Abnar & Zuidema 2020); "value_zeroing" (Mohebbi et al. 2023); "alti" (Ferrando et al.
        2022) and "globenc" (Modarressi et al. 2022), rollouts of whole layers, which are no attributions: they have no sign and
        no target. All but the first two are of whole layers: they take no `heads`, and have one map for each layer,
        `maps.layer(3)`.

        The call begins when the first maps are requested; more texts than a call takes go in one after the other, within one
        `timeout`. Closing the generator cancels it. If the server goes away meanwhile, the missing texts are requested again,
        from another server if there is one.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Requested layers, each 0 to layers - 1, none twice, in the order of the tensor; None means all.
            heads: Requested heads of each of these layers, each 0 to heads - 1, none twice, in the order of the tensor; None
                means all. The map of a head that was pruned away is all zeros.
            words: True: pieces are joined to words.
            quantity: The numbers of the maps: "weights", "norms", "layer_norms", "layer_output_norms", "rollout",
                "rollout_without_residual", "value_zeroing", "alti" or "globenc". A quantity that a layer has once, and not for
                each head, takes no `heads`.
            dtype: "float32" or "float16" (half the bytes).
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the header. False: such a text is an
                error.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for the call; None means no limit.
        """
        request = with_level(
            request_of(
                attention_pb2.ExtractAttentionRequest,
                model=model,
                layers=layers,
                heads=heads,
                quantity=quantity,
                dtype=dtype,
                interventions=interventions,
                reference_texts=reference_texts,
                truncate=truncate,
            ),
            words=words,
        )
        return self._extract(
            partial(with_items, request, "inputs"),
            attention_pb2.ExtractAttentionResponse,
            AttentionAssembler,
            asked_inputs(inputs),
            timeout,
            on_rejected,
        )

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

        The maps stay on the server, which sends sums over texts.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers to describe, each 0 to layers - 1, none twice; None means all. The reply is in this order.
            punctuation: Vocabulary entries that count as punctuation, at most 100, none empty, each as texts write it: "." also
                names the pieces "##." and "Ġ.". An entry that is no single piece is an error. None means "." and "," (Clark et
                al. 2019), if there are such.
            head_distances: True: also compute `HeadDistances`, which takes time proportional to (layers * heads)^2.
            quantity: The numbers of the maps, as in `extract_attention` but for "value_zeroing" (UNIMPLEMENTED). Rows of norms
                are divided by their sums first, and what is said of rows that sum to 1 holds for these.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and count them. False: such a text is an error.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
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

        `model` runs untouched, `other_model` under the interventions. The maps stay on the server, which sends sums over texts.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            other_model: Resource name of the second model, with the same vocabulary, layers and heads; None means the same
                model, which needs interventions then.
            model: The model's name or a `Model`; None means the server's default model.
            punctuation: Vocabulary entries that count as punctuation, as in `describe_attention`.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the models read, and count them. False: such a text is an error.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
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

    async def score_relations(
        self,
        texts: RelationText | Iterable[RelationText],
        relations: str | Iterable[str] | None = None,
        *,
        model: str | Model | None = None,
        details: bool = True,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> RelationScores:
        """Scores how every head attends between linked words: which head finds a verb's subject, and how often.

        Texts without a pair are not sent. Intervals need `details`.

        Arguments:
            texts: Any number of `RelationText`, as `read_conllu` and `read_propbank` give them.
            relations: Names of the relations, at most 1,000; None means all of the texts'.
            model: The model's name or a `Model`; None means the server's default model.
            details: True: also return the scores of each text, for resampling. They take 2 * layers * heads numbers for each
                relation of a text.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            attention_relations_pb2.ScoreRelationsRequest,
            relations=relations,
            model=model,
            details=details,
            interventions=interventions,
            reference_texts=reference_texts,
        )
        asked = asked_relation_texts(texts, request.relations)
        answers = self._answers(
            asked,
            partial(with_relation_texts, request),
            attention_relations_pb2.ScoreRelationsResponse,
            lambda _, reply: [read_relation_scores(reply)],
            timeout,
            pace=self._pace(lambda text: text.text, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return await self._sum(answers, RelationScores.merge, asked.total, on_progress)

    async def score_features(
        self,
        texts: FeatureText | Iterable[FeatureText],
        features: str | Iterable[str] | None = None,
        *,
        model: str | Model | None = None,
        special_tokens: bool = True,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> FeatureScores:
        """Scores how much every head attends to words with a feature: nouns, negations, the subject.

        Arguments:
            texts: Any number of `FeatureText`, as `read_conllu_features` gives them.
            features: Names of the features, at most 1,000; None means all of the texts'.
            model: The model's name or a `Model`; None means the server's default model.
            special_tokens: True: the first special token and the others together are features, too; the reply names them after
                their vocabulary entries, as "[CLS]" and "[SEP]". Models without special tokens have no such features.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            attention_relations_pb2.ScoreFeaturesRequest,
            features=features,
            model=model,
            special_tokens=special_tokens,
            interventions=interventions,
            reference_texts=reference_texts,
        )
        asked = asked_feature_texts(texts, request.features, special_tokens=request.special_tokens)
        answers = self._answers(
            asked,
            partial(with_feature_texts, request),
            attention_relations_pb2.ScoreFeaturesResponse,
            lambda _, reply: [read_feature_scores(reply)],
            timeout,
            pace=self._pace(lambda text: text.text, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return await self._sum(answers, FeatureScores.merge, asked.total, on_progress)
