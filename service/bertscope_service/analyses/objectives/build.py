"""Builds the objective for a query."""

from __future__ import annotations

from typing import TypeAlias

from bertscope_service.analyses.label_distributions import labelling_of
from bertscope_service.analyses.objectives.answered import AnsweredObjective, AnsweredQuery
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsObjective, ClozePromptsQuery
from bertscope_service.analyses.objectives.divergence import DivergenceQuery, LabelDivergenceObjective, MaskDivergenceObjective
from bertscope_service.analyses.objectives.label_sets import LabelSetsObjective, LabelSetsQuery
from bertscope_service.analyses.objectives.labelled import LabelledObjective, LabelledQuery
from bertscope_service.analyses.objectives.masked_lm import MaskedLmObjective, MaskedLmQuery
from bertscope_service.analyses.objectives.minimal_pairs import MinimalPairsObjective, MinimalPairsQuery
from bertscope_service.analyses.objectives.rated import RatedObjective, RatedQuery
from bertscope_service.analyses.objectives.similarity import SimilarityObjective, SimilarityQuery
from bertscope_service.analyses.objectives.token_labels import TokenLabelsObjective, TokenLabelsQuery
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder

ObjectiveQuery: TypeAlias = (
    MaskedLmQuery
    | ClozePromptsQuery
    | MinimalPairsQuery
    | LabelledQuery
    | TokenLabelsQuery
    | DivergenceQuery
    | RatedQuery
    | AnsweredQuery
    | LabelSetsQuery
    | SimilarityQuery
)


def build_objective(
    query: ObjectiveQuery, tokenizer: TextTokenizer, encoder: Encoder, model: str, declared: DeclaredPooling | None = None
) -> Objective:
    """Tokenizes and checks all items, which takes seconds for many of them.

    `encoder` has the head that the query needs; `model` is its name, for errors; `declared` the pooling of texts that the query
    asks of the model. Raises InvalidArgument, which names the item's
    field.
    """
    shape = encoder.shape
    match query:
        case MaskedLmQuery():
            return MaskedLmObjective(query, tokenizer)
        case ClozePromptsQuery():
            return ClozePromptsObjective(query, tokenizer)
        case MinimalPairsQuery():
            return MinimalPairsObjective(query, tokenizer)
        case LabelledQuery():
            return LabelledObjective(query, tokenizer, shape.labels, model)
        case TokenLabelsQuery():
            return TokenLabelsObjective(query, tokenizer, shape.head_labels, model)
        case AnsweredQuery():
            return AnsweredObjective(query, tokenizer)
        case DivergenceQuery():
            labelling = labelling_of(encoder.capabilities)
            return (
                MaskDivergenceObjective(query, tokenizer)
                if labelling is None
                else LabelDivergenceObjective(query, tokenizer, labelling)
            )
        case LabelSetsQuery():
            return LabelSetsObjective(query, tokenizer, shape.head_labels, model)
        case RatedQuery():
            return RatedObjective(query, tokenizer)
        case SimilarityQuery():
            return SimilarityObjective(query, tokenizer, shape, declared)
