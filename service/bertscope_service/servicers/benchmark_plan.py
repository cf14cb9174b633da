"""What BenchmarkModels will run, checked whole before anything is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bertscope_service.analyses.agreement import Question, Shared, label_questions, mask_questions, shared_pieces
from bertscope_service.analyses.objective import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery, build_objective
from bertscope_service.errors import InvalidArgument
from bertscope_service.jobs.benchmark import Inputs, Subject, make_inputs
from bertscope_service.jobs.benchmark_losses import build_objectives
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.ablation import check_draws
from bertscope_service.messages.benchmark import USUAL_TOP_K, BenchmarkQuery
from bertscope_service.servicers.requirements import require_classification, require_cloze


@dataclass(frozen=True, slots=True)
class Plan:
    """A benchmark whose every text was read and checked."""

    query: BenchmarkQuery
    models: Sequence[LoadedModel]
    baseline: int
    inputs: Sequence[Inputs]
    questions: Sequence[Question]
    shared: Sequence[Shared]
    top_k: int
    objectives: Sequence[Objective]

    @property
    def losses(self) -> int:
        """How many parts it has after the speeds."""
        return bool(self.questions) + bool(self.objectives)


def require_agreement(models: Sequence[LoadedModel], baseline: int) -> None:
    """All models predict what the baseline does: masks, or the same labels. Raises Unsupported, InvalidArgument."""
    labels = models[baseline].encoder.shape.labels
    for model in models:
        if not labels:
            require_cloze(model)
            continue
        require_classification(model)
        if model.encoder.shape.labels != labels:
            message = f"{model.name} has other labels than {models[baseline].name}; leave agreement_texts out, or that model"
            raise InvalidArgument("agreement_texts", message, "LABELS_DIFFER", model=model.name)


def make_plan(query: BenchmarkQuery, models: Sequence[LoadedModel], baseline: int) -> Plan:
    """Tokenize and check all texts; with many of them this takes seconds. Raises InvalidArgument."""
    inputs = make_inputs([Subject(model.encoder, model.tokenizer) for model in models], query.measurement)
    questions, shared, top_k = make_questions(query, models, baseline)
    objectives: Sequence[Objective] = ()
    if query.objective is not None:
        objectives = build_objectives(query.objective, [partial(build, model) for model in models])
        check_draws(query.measurement.bootstrap, objectives[0].items, "measurement.bootstrap")
    return Plan(query, models, baseline, inputs, questions, shared, top_k, objectives)


def make_questions(
    query: BenchmarkQuery, models: Sequence[LoadedModel], baseline: int
) -> tuple[Sequence[Question], Sequence[Shared], int]:
    """What agreement is measured on, what is compared of each model, and the k. Raises InvalidArgument."""
    texts, first, tokenizers = query.agreement_texts, models[baseline], [model.tokenizer for model in models]
    if not texts:
        return (), (), 0
    labels = len(first.encoder.shape.labels)
    sizes = [labels or model.encoder.shape.vocabulary_size for model in models]
    if query.top_k is not None and query.top_k > min(sizes):
        message = f"top_k is {query.top_k} and the models choose among {min(sizes)} {'labels' if labels else 'pieces'}"
        raise InvalidArgument("top_k", f"{message}; use at most that", "TOP_K_OUT_OF_RANGE", limit=min(sizes))
    top_k = query.top_k or min(USUAL_TOP_K, *sizes)
    if labels:
        return label_questions(texts, tokenizers), [Shared()] * len(models), top_k
    shared = [
        shared_pieces(first.tokenizer, tokenizer, (sizes[baseline], size), top_k)
        for tokenizer, size in zip(tokenizers, sizes, strict=True)
    ]
    return mask_questions(texts, tokenizers, query.measurement.bootstrap.seed), shared, top_k


def build(model: LoadedModel, query: ObjectiveQuery) -> Objective:
    """An objective for one model."""
    return build_objective(query, model.tokenizer, model.encoder.shape.labels, model.name)
