"""Builds the objective for a query."""

from __future__ import annotations

from typing import TypeAlias

from bertscope_service.analyses.objectives.answered import AnsweredObjective, AnsweredQuery
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsObjective, ClozePromptsQuery
from bertscope_service.analyses.objectives.divergence import DivergenceQuery, LabelDivergenceObjective, MaskDivergenceObjective
from bertscope_service.analyses.objectives.labelled import LabelledObjective, LabelledQuery
from bertscope_service.analyses.objectives.masked_lm import MaskedLmObjective, MaskedLmQuery
from bertscope_service.analyses.objectives.minimal_pairs import MinimalPairsObjective, MinimalPairsQuery
from bertscope_service.analyses.objectives.rated import RatedObjective, RatedQuery
from bertscope_service.analyses.objectives.token_labels import TokenLabelsObjective, TokenLabelsQuery
from bertscope_service.checkpoints.tokenizer import TextTokenizer

ObjectiveQuery: TypeAlias = (
    MaskedLmQuery
    | ClozePromptsQuery
    | MinimalPairsQuery
    | LabelledQuery
    | TokenLabelsQuery
    | DivergenceQuery
    | RatedQuery
    | AnsweredQuery
)


def build_objective(query: ObjectiveQuery, tokenizer: TextTokenizer, labels: tuple[str, ...], model: str) -> Objective:
    """Tokenizes and checks all items, which takes seconds for many of them.

    `labels` are the model's, none for a masked-LM; `model` is its name, for errors. Raises InvalidArgument, which names the
    item's field.
    """
    match query:
        case MaskedLmQuery():
            return MaskedLmObjective(query, tokenizer)
        case ClozePromptsQuery():
            return ClozePromptsObjective(query, tokenizer)
        case MinimalPairsQuery():
            return MinimalPairsObjective(query, tokenizer)
        case LabelledQuery():
            return LabelledObjective(query, tokenizer, labels, model)
        case TokenLabelsQuery():
            return TokenLabelsObjective(query, tokenizer, labels, model)
        case AnsweredQuery():
            return AnsweredObjective(query, tokenizer)
        case DivergenceQuery():
            return (LabelDivergenceObjective if labels else MaskDivergenceObjective)(query, tokenizer)
        case RatedQuery():
            return RatedObjective(query, tokenizer)
