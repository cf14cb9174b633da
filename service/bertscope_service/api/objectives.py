"""Objectives in requests: converts bertscope.v1.Objective to a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from bertscope.v1 import ablation_pb2, benchmark_pb2
from bertscope.v1 import representation_states_pb2 as states_pb2

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
from bertscope_service.analyses.objectives.similarity import SimilarityQuery
from bertscope_service.analyses.objectives.token_labels import LabelledSentence, TokenLabelsQuery
from bertscope_service.api.checks import read_text
from bertscope_service.api.field_checks import MASKED_LM_LOSS_MASK_SHARE
from bertscope_service.api.limits import MAX_ANSWERS
from bertscope_service.api.question_answering import read_answer_tokens, read_question, read_stride
from bertscope_service.api.representation_states import DECLARED, POOLINGS
from bertscope_service.api.requirements import asked_pooling
from bertscope_service.api.scoring import SCORINGS
from bertscope_service.api.spans import check_apart, check_span
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel


def parse_objective(
    request: ablation_pb2.SweepHeadsRequest | ablation_pb2.RankHeadsRequest | benchmark_pb2.BenchmarkModelsRequest,
) -> ObjectiveQuery:
    """Converts the objective, checking what can be checked without the model. Raises InvalidArgument."""
    kind = request.objective.WhichOneof("kind") if request.HasField("objective") else None
    if kind is None:
        message = f"objective is missing or empty; set one of {', '.join(KINDS)}"
        raise InvalidArgument("objective", message, "OBJECTIVE_MISSING")
    return KINDS[kind](request.objective)


def build(query: ObjectiveQuery, model: LoadedModel) -> Objective:
    """Tokenizes and checks all items, which takes seconds for many of them. Raises InvalidArgument."""
    declared = asked_pooling(model, query) if isinstance(query, SimilarityQuery) else None
    return build_objective(query, model.tokenizer, model.encoder, model.name, declared)


def _masked_lm(objective: ablation_pb2.Objective) -> MaskedLmQuery:
    given = objective.masked_lm_loss
    share = given.mask_share if given.HasField("mask_share") else MASKED_LM_LOSS_MASK_SHARE
    return MaskedLmQuery(tuple(given.texts), given.seed, share, objective.truncate)


def _cloze(objective: ablation_pb2.Objective) -> ClozePromptsQuery:
    given = objective.cloze
    prompts = tuple(Prompt(prompt.text, tuple(prompt.answers)) for prompt in given.prompts)
    return ClozePromptsQuery(prompts, given.skip_multi_piece, objective.truncate)


def _minimal_pairs(objective: ablation_pb2.Objective) -> MinimalPairsQuery:
    given = objective.minimal_pairs
    pairs = tuple((pair.good, pair.bad) for pair in given.pairs)
    return MinimalPairsQuery(pairs, SCORINGS[given.scoring], objective.truncate)


def _labelled(objective: ablation_pb2.Objective) -> LabelledQuery:
    field, given = "objective.classification.texts", objective.classification
    texts = tuple(_labelled_text(text, f"{field}[{index}]") for index, text in enumerate(given.texts))
    return LabelledQuery(texts, objective.truncate)


def _labelled_text(entry: ablation_pb2.LabelledText, field: str) -> LabelledText:
    text, pair = read_text(entry.input)
    kind = entry.WhichOneof("gold")
    if kind is None:
        raise InvalidArgument(f"{field}.label", f"{field} has no label; set label or label_index", "LABEL_MISSING")
    return LabelledText(text, pair, entry.label if kind == "label" else entry.label_index)


def _token_labels(objective: ablation_pb2.Objective) -> TokenLabelsQuery:
    field, given = "objective.token_classification.texts", objective.token_classification
    texts = tuple(_labelled_sentence(text, f"{field}[{index}]") for index, text in enumerate(given.texts))
    return TokenLabelsQuery(texts, objective.truncate)


def _labelled_sentence(entry: ablation_pb2.LabelledSentence, field: str) -> LabelledSentence:
    texts = read_text(entry.input)
    if not entry.words:
        raise InvalidArgument(f"{field}.words", f"{field} has no words; mark at least one with its label", "NO_SPAN")
    words = tuple(check_span(word.span, f"{field}.words[{at}].span", texts) for at, word in enumerate(entry.words))
    for at, (before, after) in enumerate(pairwise(words), start=1):
        if (after.segment, after.start) < (before.segment, before.start):
            message = f"{field}.words[{at}] comes before the word that is listed before it; list words in the order of the text"
            raise InvalidArgument(f"{field}.words[{at}]", message, "SPANS_OVERLAP")
    check_apart(words, f"{field}.words")
    return LabelledSentence(texts, words, tuple(word.label for word in entry.words))


def _label_sets(objective: ablation_pb2.Objective) -> LabelSetsQuery:
    field, given = "objective.multi_label.texts", objective.multi_label
    texts = []
    for index, entry in enumerate(given.texts):
        own = f"{field}[{index}]"
        asked = read_text(entry.input)
        if len(set(entry.labels)) < len(entry.labels):
            raise InvalidArgument(f"{own}.labels", f"{own}.labels names a label twice; name each once", "DUPLICATE")
        texts.append(LabelSet(asked, tuple(entry.labels)))
    return LabelSetsQuery(tuple(texts), objective.truncate)


def _rated(objective: ablation_pb2.Objective) -> RatedQuery:
    given = objective.regression.texts
    _check_values("objective.regression.texts", given)
    return RatedQuery(tuple(RatedText(*read_text(entry.input), entry.value) for entry in given), objective.truncate)


def _similarity(objective: ablation_pb2.Objective) -> SimilarityQuery:
    field, given = "objective.similarity.pairs", objective.similarity
    pairs = []
    for index, entry in enumerate(given.pairs):
        first, second = read_text(entry.input)
        if second is None:
            own = f"{field}[{index}].input.text_pair"
            raise InvalidArgument(own, f"{own} is missing: each pair has two texts; set it", "TEXT_PAIR_MISSING")
        pairs.append((first, second))
    _check_values(field, given.pairs)
    asked = given.pooling
    return SimilarityQuery(
        tuple(pairs),
        tuple(entry.value for entry in given.pairs),
        None if asked in (states_pb2.STATE_POOLING_UNSPECIFIED, DECLARED) else POOLINGS[asked],
        if_declared=asked != DECLARED,
        truncate=objective.truncate,
    )


def _check_values(field: str, given: Sequence[ablation_pb2.RatedText]) -> None:
    """Raises InvalidArgument for gold values that are all equal."""
    if len({entry.value for entry in given}) == 1:
        message = f"{field} have one value, so that nothing correlates with them; give texts of different values"
        raise InvalidArgument(field, message, "VALUES_EQUAL")


def _divergence(objective: ablation_pb2.Objective) -> DivergenceQuery:
    inputs = tuple(map(read_text, objective.divergence.inputs))
    return DivergenceQuery(inputs, objective.truncate)


def _answered(objective: ablation_pb2.Objective) -> AnsweredQuery:
    field, given = "objective.question_answering", objective.question_answering
    threshold = given.no_answer_threshold if given.HasField("no_answer_threshold") else None
    questions = tuple(
        _labelled_question(one, f"{field}.questions[{index}]", answered=threshold is None)
        for index, one in enumerate(given.questions)
    )
    return AnsweredQuery(questions, read_answer_tokens(given), read_stride(given), threshold)


def _labelled_question(entry: ablation_pb2.LabelledQuestion, field: str, *, answered: bool) -> LabelledQuestion:
    """Checks a question and its gold answers. `answered`: it must have one."""
    asked = read_question(entry.input, f"{field}.input")
    if len(entry.answers) > MAX_ANSWERS or (answered and not entry.answers):
        remedy = "; or set no_answer_threshold if the passage need not answer it" if answered else ""
        message = f"{field}.answers has {len(entry.answers)} entries; give {int(answered)} to {MAX_ANSWERS}{remedy}"
        raise InvalidArgument(f"{field}.answers", message, "ANSWERS_OUT_OF_RANGE", limit=MAX_ANSWERS)
    for index, span in enumerate(entry.answers):
        check_span(span, f"{field}.answers[{index}]", (asked.passage, None))
    return LabelledQuestion(asked, tuple((span.start, span.end) for span in entry.answers), field)


KINDS: dict[str, Callable[[ablation_pb2.Objective], ObjectiveQuery]] = {
    "masked_lm_loss": _masked_lm,
    "cloze": _cloze,
    "minimal_pairs": _minimal_pairs,
    "classification": _labelled,
    "divergence": _divergence,
    "token_classification": _token_labels,
    "question_answering": _answered,
    "regression": _rated,
    "multi_label": _label_sets,
    "similarity": _similarity,
}
