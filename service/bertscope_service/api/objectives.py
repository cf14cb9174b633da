"""Objectives in requests: converts bertscope.v1.Objective to a query."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from bertscope.v1 import ablation_pb2, benchmark_pb2

from bertscope_service.analyses.objectives.answered import AnsweredQuery, LabelledQuestion
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery, build_objective
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsQuery, Prompt
from bertscope_service.analyses.objectives.divergence import DivergenceQuery
from bertscope_service.analyses.objectives.label_sets import LabelSet, LabelSetsQuery
from bertscope_service.analyses.objectives.labelled import LabelledQuery, LabelledText
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.analyses.objectives.minimal_pairs import MinimalPairsQuery
from bertscope_service.analyses.objectives.rated import RatedQuery, RatedText
from bertscope_service.analyses.objectives.token_labels import LabelledSentence, TokenLabelsQuery
from bertscope_service.api.checks import check_each, check_input, check_items, check_text
from bertscope_service.api.limits import MAX_ANSWERS, MAX_CANDIDATE_CHARACTERS, MAX_SPANS, RequestLimits
from bertscope_service.api.question_answering import check_answer_tokens, check_question, check_stride
from bertscope_service.api.scoring import read_scoring
from bertscope_service.api.spans import check_apart, check_count, check_span
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

DEFAULT_MASK_SHARE = 0.15


def parse_objective(
    request: ablation_pb2.SweepHeadsRequest | ablation_pb2.RankHeadsRequest | benchmark_pb2.BenchmarkModelsRequest,
    limits: RequestLimits,
) -> ObjectiveQuery:
    """Converts the objective, checking what can be checked without the model. Raises InvalidArgument."""
    kind = request.objective.WhichOneof("kind") if request.HasField("objective") else None
    if kind is None:
        message = f"objective is missing or empty; set one of {', '.join(KINDS)}"
        raise InvalidArgument("objective", message, "OBJECTIVE_MISSING")
    return KINDS[kind](request.objective, limits)


def build(query: ObjectiveQuery, model: LoadedModel) -> Objective:
    """Tokenizes and checks all items, which takes seconds for many of them. Raises InvalidArgument."""
    return build_objective(query, model.tokenizer, model.encoder, model.name)


def _masked_lm(objective: ablation_pb2.Objective, limits: RequestLimits) -> MaskedLmQuery:
    field, given = "objective.masked_lm_loss", objective.masked_lm_loss
    check_items(given.texts, f"{field}.texts")
    share = given.mask_share if given.HasField("mask_share") else DEFAULT_MASK_SHARE
    # In this form the condition refuses NaN too.
    if not 0 < share <= 1:
        message = f"{field}.mask_share is {share}; use a number over 0, at most 1"
        raise InvalidArgument(f"{field}.mask_share", message, "MASK_SHARE_OUT_OF_RANGE")
    texts = check_each(given.texts, f"{field}.texts", limits)
    return MaskedLmQuery(texts, given.seed, share, objective.truncate)


def _cloze(objective: ablation_pb2.Objective, limits: RequestLimits) -> ClozePromptsQuery:
    field, given = "objective.cloze.prompts", objective.cloze
    check_items(given.prompts, field)
    prompts = tuple(_prompt(prompt, f"{field}[{index}]", limits) for index, prompt in enumerate(given.prompts))
    return ClozePromptsQuery(prompts, given.skip_multi_piece, objective.truncate)


def _prompt(prompt: ablation_pb2.ClozePrompt, field: str, limits: RequestLimits) -> Prompt:
    text = check_text(prompt.text, f"{field}.text", limits)
    if not 1 <= len(prompt.answers) <= MAX_ANSWERS:
        message = f"{field}.answers has {len(prompt.answers)} entries; give 1 to {MAX_ANSWERS}"
        raise InvalidArgument(f"{field}.answers", message, "ANSWERS_OUT_OF_RANGE", limit=MAX_ANSWERS)
    for index, answer in enumerate(prompt.answers):
        answer_field = f"{field}.answers[{index}]"
        if len(answer) > MAX_CANDIDATE_CHARACTERS:
            message = f"{answer_field} has {len(answer)} characters; an answer may have {MAX_CANDIDATE_CHARACTERS}"
            raise InvalidArgument(answer_field, message, "ANSWER_TOO_LARGE", limit=MAX_CANDIDATE_CHARACTERS)
        check_text(answer, answer_field, limits)
    return Prompt(text, tuple(prompt.answers))


def _minimal_pairs(objective: ablation_pb2.Objective, limits: RequestLimits) -> MinimalPairsQuery:
    field, given = "objective.minimal_pairs", objective.minimal_pairs
    check_items(given.pairs, f"{field}.pairs")
    scoring = read_scoring(given.scoring, f"{field}.scoring")
    pairs = tuple(
        (
            check_text(pair.good, f"{field}.pairs[{index}].good", limits),
            check_text(pair.bad, f"{field}.pairs[{index}].bad", limits),
        )
        for index, pair in enumerate(given.pairs)
    )
    return MinimalPairsQuery(pairs, scoring, objective.truncate)


def _labelled(objective: ablation_pb2.Objective, limits: RequestLimits) -> LabelledQuery:
    field, given = "objective.classification.texts", objective.classification
    check_items(given.texts, field)
    texts = tuple(_labelled_text(text, f"{field}[{index}]", limits) for index, text in enumerate(given.texts))
    return LabelledQuery(texts, objective.truncate)


def _labelled_text(entry: ablation_pb2.LabelledText, field: str, limits: RequestLimits) -> LabelledText:
    text, pair = check_input(entry.input, f"{field}.input", limits)
    kind = entry.WhichOneof("gold")
    if kind is None:
        raise InvalidArgument(f"{field}.label", f"{field} has no label; set label or label_index", "LABEL_MISSING")
    return LabelledText(text, pair, entry.label if kind == "label" else entry.label_index)


def _token_labels(objective: ablation_pb2.Objective, limits: RequestLimits) -> TokenLabelsQuery:
    field, given = "objective.token_classification.texts", objective.token_classification
    check_items(given.texts, field)
    texts = tuple(_labelled_sentence(text, f"{field}[{index}]", limits) for index, text in enumerate(given.texts))
    return TokenLabelsQuery(texts, objective.truncate)


def _labelled_sentence(entry: ablation_pb2.LabelledSentence, field: str, limits: RequestLimits) -> LabelledSentence:
    texts = check_input(entry.input, f"{field}.input", limits)
    if not entry.words:
        raise InvalidArgument(f"{field}.words", f"{field} has no words; mark at least one with its label", "NO_SPAN")
    check_count(entry.words, f"{field}.words", MAX_SPANS, "TOO_MANY_SPANS")
    words = tuple(check_span(word.span, f"{field}.words[{at}].span", texts) for at, word in enumerate(entry.words))
    for at, word in enumerate(entry.words):
        if not word.label:
            place = f"{field}.words[{at}].label"
            raise InvalidArgument(place, f"{place} is empty; name the word's label", "LABEL_MISSING")
    for at, (before, after) in enumerate(pairwise(words), start=1):
        if (after.segment, after.start) < (before.segment, before.start):
            message = f"{field}.words[{at}] comes before the word that is listed before it; list words in the order of the text"
            raise InvalidArgument(f"{field}.words[{at}]", message, "SPANS_OVERLAP")
    check_apart(words, f"{field}.words")
    return LabelledSentence(texts, words, tuple(word.label for word in entry.words))


def _label_sets(objective: ablation_pb2.Objective, limits: RequestLimits) -> LabelSetsQuery:
    field, given = "objective.multi_label.texts", objective.multi_label
    check_items(given.texts, field)
    texts = []
    for index, entry in enumerate(given.texts):
        own = f"{field}[{index}]"
        asked = check_input(entry.input, f"{own}.input", limits)
        for at, label in enumerate(entry.labels):
            if not label:
                message = f"{own}.labels[{at}] is empty; name a label, or leave it out"
                raise InvalidArgument(f"{own}.labels[{at}]", message, "LABEL_MISSING")
        if len(set(entry.labels)) < len(entry.labels):
            raise InvalidArgument(f"{own}.labels", f"{own}.labels names a label twice; name each once", "DUPLICATE")
        texts.append(LabelSet(asked, tuple(entry.labels)))
    return LabelSetsQuery(tuple(texts), objective.truncate)


def _rated(objective: ablation_pb2.Objective, limits: RequestLimits) -> RatedQuery:
    field, given = "objective.regression.texts", objective.regression
    check_items(given.texts, field)
    texts = []
    for index, entry in enumerate(given.texts):
        text, pair = check_input(entry.input, f"{field}[{index}].input", limits)
        if not math.isfinite(entry.value):
            message = f"{field}[{index}].value is {entry.value}; give a finite number"
            raise InvalidArgument(f"{field}[{index}].value", message, "VALUE_NOT_FINITE")
        texts.append(RatedText(text, pair, entry.value))
    if len({entry.value for entry in texts}) == 1:
        message = f"{field} have one value, so that nothing correlates with them; give texts of different values"
        raise InvalidArgument(field, message, "VALUES_EQUAL")
    return RatedQuery(tuple(texts), objective.truncate)


def _divergence(objective: ablation_pb2.Objective, limits: RequestLimits) -> DivergenceQuery:
    field, given = "objective.divergence.inputs", objective.divergence
    check_items(given.inputs, field)
    inputs = tuple(check_input(entry, f"{field}[{index}]", limits) for index, entry in enumerate(given.inputs))
    return DivergenceQuery(inputs, objective.truncate)


def _answered(objective: ablation_pb2.Objective, limits: RequestLimits) -> AnsweredQuery:
    field, given = "objective.question_answering", objective.question_answering
    check_items(given.questions, f"{field}.questions")
    threshold = given.no_answer_threshold if given.HasField("no_answer_threshold") else None
    if threshold is not None and not math.isfinite(threshold):
        message = f"{field}.no_answer_threshold is {threshold}; use a finite number, such as 0"
        raise InvalidArgument(f"{field}.no_answer_threshold", message, "THRESHOLD_OUT_OF_RANGE")
    questions = tuple(
        _labelled_question(one, f"{field}.questions[{index}]", limits, answered=threshold is None)
        for index, one in enumerate(given.questions)
    )
    longest = check_answer_tokens(given, f"{field}.max_answer_tokens")
    return AnsweredQuery(questions, longest, check_stride(given, f"{field}.stride"), threshold)


def _labelled_question(
    entry: ablation_pb2.LabelledQuestion, field: str, limits: RequestLimits, *, answered: bool
) -> LabelledQuestion:
    """Checks a question and its gold answers. `answered`: it must have one."""
    asked = check_question(entry.input, f"{field}.input", limits)
    if len(entry.answers) > MAX_ANSWERS or (answered and not entry.answers):
        remedy = "; or set no_answer_threshold if the passage need not answer it" if answered else ""
        message = f"{field}.answers has {len(entry.answers)} entries; give {int(answered)} to {MAX_ANSWERS}{remedy}"
        raise InvalidArgument(f"{field}.answers", message, "ANSWERS_OUT_OF_RANGE", limit=MAX_ANSWERS)
    for index, span in enumerate(entry.answers):
        check_span(span, f"{field}.answers[{index}]", (asked.passage, None))
    return LabelledQuestion(asked, tuple((span.start, span.end) for span in entry.answers), field)


KINDS: dict[str, Callable[[ablation_pb2.Objective, RequestLimits], ObjectiveQuery]] = {
    "masked_lm_loss": _masked_lm,
    "cloze": _cloze,
    "minimal_pairs": _minimal_pairs,
    "classification": _labelled,
    "divergence": _divergence,
    "token_classification": _token_labels,
    "question_answering": _answered,
    "regression": _rated,
    "multi_label": _label_sets,
}
