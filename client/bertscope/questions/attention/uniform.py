"""Declares the calls for attention: `extract_attention`, `describe_attention`, `score_relations` and others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

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
from bertscope.rpc.uniform import extracted, total
from bertscope.values.choices import DataType, Quantity
from bertscope.values.messages import Inputs, asked_inputs, text_of
from bertscope.values.models import Model


class AttentionCalls(Protocol):
    """The methods of `AsyncClient` that extract, describe, compare and score attention."""

    @extracted(
        asked_inputs,
        AttentionAssembler,
        finish=with_level,
        without="level",
        order="model layers heads words quantity dtype",
    )
    def extract_attention(
        self, inputs: Inputs, *, words: bool = False, quantity: Quantity = "weights", dtype: DataType = "float32"
    ) -> AttentionMaps:
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
            words: True: pieces are joined to words.
            dtype: "float32" or "float16" (half the bytes).
        """

    @total(asked_inputs, read_description, text=text_of)
    def describe_attention(self, inputs: Inputs, *, quantity: Quantity = "weights") -> AttentionDescription:
        """Describes what every head attends to: statistics, pattern classes and, if requested, distances between heads.

        The maps stay on the server, which sends sums over texts.
        """

    @total(asked_inputs, read_comparison, text=text_of)
    def compare_attention(self, inputs: Inputs, other_model: str | Model | None = None) -> AttentionComparison:
        """Compares the maps of two models, such as a model and its fine-tuned copy, head by head.

        `model` runs untouched, `other_model` under the interventions. The maps stay on the server, which sends sums over texts.
        """

    @total(
        asked_relation_texts, read_relation_scores, text=lambda text: text.text, build=with_relation_texts, shared="relations"
    )
    def score_relations(
        self,
        texts: RelationText | Iterable[RelationText],
        relations: str | Iterable[str] | None = None,
        *,
        details: bool = True,
    ) -> RelationScores:
        """Scores how every head attends between linked words: which head finds a verb's subject, and how often.

        Texts without a pair are not sent. Intervals need `details`.

        Arguments:
            texts: Any number of `RelationText`, as `read_conllu` and `read_propbank` give them.
            relations: Names of the relations, at most 1,000; None means all of the texts'.
        """

    @total(
        asked_feature_texts,
        read_feature_scores,
        text=lambda text: text.text,
        build=with_feature_texts,
        shared="features special_tokens",
    )
    def score_features(
        self,
        texts: FeatureText | Iterable[FeatureText],
        features: str | Iterable[str] | None = None,
        *,
        special_tokens: bool = True,
    ) -> FeatureScores:
        """Scores how much every head attends to words with a feature: nouns, negations, the subject.

        Arguments:
            texts: Any number of `FeatureText`, as `read_conllu_features` gives them.
            features: Names of the features, at most 1,000; None means all of the texts'.
        """
