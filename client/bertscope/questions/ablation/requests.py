"""Builds the requests of AblationService."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from bertscope.errors import invalid_argument
from bertscope.questions.ablation.objectives import ClozePrompts, Divergence, Greedy, MaskedLmLoss, MinimalPairs, Objective
from bertscope.questions.ablation.task_objectives import (
    LabelledQuestions,
    LabelledTexts,
    LabelledWords,
    LabelSets,
    RatedTexts,
    SimilarTexts,
)
from bertscope.v1 import ablation_pb2, common_pb2, distillation_pb2, question_answering_pb2, representation_states_pb2
from bertscope.values import validation
from bertscope.values.messages import enum_value, text_input
from bertscope.values.validation import HeadsByLayer, TextOrPair

SCOPES = {"heads": "every_head", "layers": "every_layer"}
"""Names of scopes in the contract."""
Labelled = TypeVar("Labelled", ablation_pb2.LabelledText, distillation_pb2.DistillationText)


def objective_message(objective: Objective) -> ablation_pb2.Objective:
    """Returns the message of an objective, which was checked when it was made."""
    if type(objective) not in MESSAGES:
        raise invalid_argument("objective", f"must be made by one of bertscope.{', '.join(kind.__name__ for kind in MESSAGES)}")
    return ablation_pb2.Objective(truncate=objective.truncate, **MESSAGES[type(objective)](objective))


def _masked_lm_loss(objective: MaskedLmLoss) -> dict[str, Any]:
    message = ablation_pb2.MaskedLmLoss(texts=objective.texts, seed=objective.seed, mask_share=objective.mask_share)
    return {"masked_lm_loss": message}


def _cloze(objective: ClozePrompts) -> dict[str, Any]:
    prompts = [ablation_pb2.ClozePrompt(text=text, answers=answers) for text, answers in objective.prompts]
    return {"cloze": ablation_pb2.ClozePrompts(prompts=prompts, skip_multi_piece=objective.skip_multi_piece)}


def _minimal_pairs(objective: MinimalPairs) -> dict[str, Any]:
    pairs = [ablation_pb2.MinimalPair(good=good, bad=bad) for good, bad in objective.pairs]
    scoring = enum_value("scoring", objective.scoring, common_pb2.PseudoLogLikelihood)
    return {"minimal_pairs": ablation_pb2.MinimalPairs(pairs=pairs, scoring=scoring)}


def _classification(objective: LabelledTexts) -> dict[str, Any]:
    texts = [labelled_text(ablation_pb2.LabelledText, text, label) for text, label in objective.texts]
    return {"classification": ablation_pb2.LabelledTexts(texts=texts)}


def _token_classification(objective: LabelledWords) -> dict[str, Any]:
    texts = [
        ablation_pb2.LabelledSentence(
            input=text_input(given.text),
            words=[
                ablation_pb2.LabelledWord(
                    span=common_pb2.CharacterSpan(start=place.start, end=place.end, segment=place.segment), label=label
                )
                for label, place in given.labels
            ],
        )
        for given in objective.texts
    ]
    return {"token_classification": ablation_pb2.LabelledSentences(texts=texts)}


def labelled_text(kind: type[Labelled], text: TextOrPair, label: str | int) -> Labelled:
    """Returns a message of a text and its label, which is a name or an index."""
    if isinstance(label, str):
        return kind(input=text_input(text), label=label)
    return kind(input=text_input(text), label_index=label)


def _divergence(objective: Divergence) -> dict[str, Any]:
    return {"divergence": ablation_pb2.Divergence(inputs=map(text_input, objective.inputs))}


def _regression(objective: RatedTexts) -> dict[str, Any]:
    texts = [ablation_pb2.RatedText(input=text_input(text), value=value) for text, value in objective.texts]
    return {"regression": ablation_pb2.RatedTexts(texts=texts)}


def _similarity(objective: SimilarTexts) -> dict[str, Any]:
    pooling = enum_value("pooling", objective.pooling, representation_states_pb2.StatePooling)
    pairs = [ablation_pb2.RatedText(input=text_input(texts), value=value) for texts, value in objective.pairs]
    return {"similarity": ablation_pb2.SimilarTexts(pairs=pairs, pooling=pooling)}


def _multi_label(objective: LabelSets) -> dict[str, Any]:
    texts = [ablation_pb2.LabelSet(input=text_input(text), labels=labels) for text, labels in objective.texts]
    return {"multi_label": ablation_pb2.LabelSets(texts=texts)}


def _question_answering(objective: LabelledQuestions) -> dict[str, Any]:
    questions = [
        ablation_pb2.LabelledQuestion(
            input=question_answering_pb2.Question(question=question, passage=passage),
            answers=[common_pb2.CharacterSpan(start=start, end=end) for start, end in answers],
        )
        for question, passage, answers in _placed(objective)
    ]
    message = ablation_pb2.LabelledQuestions(
        questions=questions,
        max_answer_tokens=objective.max_answer_tokens,
        stride=objective.stride,
        no_answer_threshold=objective.no_answer_threshold,
    )
    return {"question_answering": message}


def _placed(objective: LabelledQuestions) -> Iterable[tuple[str, str, tuple[tuple[int, int], ...]]]:
    """Returns the questions, whose answers were placed when the objective was made."""
    return cast("Iterable[tuple[str, str, tuple[tuple[int, int], ...]]]", objective.questions)


MESSAGES: dict[type[Any], Callable[[Any], dict[str, Any]]] = {
    MaskedLmLoss: _masked_lm_loss,
    ClozePrompts: _cloze,
    MinimalPairs: _minimal_pairs,
    LabelledTexts: _classification,
    LabelledWords: _token_classification,
    Divergence: _divergence,
    RatedTexts: _regression,
    SimilarTexts: _similarity,
    LabelSets: _multi_label,
    LabelledQuestions: _question_answering,
}


def scope_of(scope: str | None, sets: object) -> str | None:
    """Returns the name of the scope in the contract; None with sets, which say what is changed."""
    if sets is not None:
        if scope is not None:
            raise invalid_argument("scope", "must be left out with sets: they say what is changed")
        return None
    return validation.choice("scope", scope or "heads", SCOPES)


def scale_of(mode: str, factor: float | None) -> float | None:
    """Returns the factor of mode "scale"; None for the other ones, which have none."""
    if (mode == "scale") != (factor is not None):
        raise invalid_argument("factor", 'is required for mode "scale" and must be left out otherwise')
    return None if factor is None else validation.finite_number("factor", factor)


def head_sets(sets: HeadsByLayer | Iterable[HeadsByLayer]) -> list[ablation_pb2.HeadSet]:
    """Returns the messages of one set of heads, or of many."""
    if isinstance(sets, Mapping):
        sets = [sets]
    messages = [
        ablation_pb2.HeadSet(layers=layer_heads(f"sets[{index}]", heads))
        for index, heads in enumerate(validation.many("sets", sets, "mappings {layer: heads}"))
    ]
    return validation.not_empty("sets", messages)


def layer_heads(field: str, heads: object) -> list[common_pb2.LayerHeads]:
    """Returns the messages of heads by layer, ascending."""
    by_layer = validation.heads_by_layer(field, heads)
    return [common_pb2.LayerHeads(layer=layer, heads=numbers) for layer, numbers in sorted(by_layer.items())]


def greedy_message(greedy: Greedy) -> ablation_pb2.Greedy:
    """Returns the message of a greedy removal."""
    if not isinstance(greedy, Greedy):
        raise invalid_argument("greedy", "must be a bertscope.Greedy")
    return ablation_pb2.Greedy(
        order=enum_value("order", greedy.order, ablation_pb2.Greedy.Order),
        step=greedy.step,
        max_removed=greedy.max_removed or 0,
        metric=enum_value("metric", greedy.metric, ablation_pb2.Metric),
    )
