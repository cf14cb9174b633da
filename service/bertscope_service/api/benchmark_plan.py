"""The plan of a BenchmarkModels call, checked completely before anything runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from bertscope_service.analyses.label_distributions import labelling_of
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.states import StatesPlan
from bertscope_service.analyses.text_vectors import plan_vectors
from bertscope_service.api.answer import Backend
from bertscope_service.api.benchmark_requests import USUAL_TOP_K, BenchmarkQuery
from bertscope_service.api.intervals import check_draws
from bertscope_service.api.models import LoadDefaults
from bertscope_service.api.objectives import build
from bertscope_service.api.requirements import require_cloze, require_declared_pooling, require_distribution, require_states
from bertscope_service.benchmark.agreement import FIELD, Question, Shared, label_questions, mask_questions, shared_pieces
from bertscope_service.benchmark.building import Building
from bertscope_service.benchmark.inputs import Inputs, Subject, make_inputs
from bertscope_service.benchmark.losses import build_objectives
from bertscope_service.benchmark.vectors import MIN_TEXTS
from bertscope_service.checkpoints.declared_pooling import UnusableDeclaration
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.registry import Report
from bertscope_service.models.timed_runs import Embedding


@dataclass(frozen=True, slots=True)
class Plan:
    """A benchmark whose texts are all tokenized and checked. Agreement is asked by questions or by vectors; both are empty
    without it."""

    query: BenchmarkQuery
    models: Sequence[LoadedModel]
    baseline: int
    inputs: Sequence[Inputs]
    questions: Sequence[Question]
    shared: Sequence[Shared]
    vectors: Sequence[StatesPlan]
    top_k: int
    objectives: Sequence[Objective]

    def inputs_with(self, more: int) -> list[Inputs]:
        """Returns the inputs of all models, followed by `more` copies of the baseline's."""
        return [replace(one, sequences=[*one.sequences, *[one.sequences[self.baseline]] * more]) for one in self.inputs]

    @property
    def losses(self) -> int:
        """Number of parts after the speeds."""
        return bool(self.query.agreement_texts) + bool(self.objectives)


class BenchmarkSettings(LoadDefaults, Protocol):
    """The settings of benchmarks: how models run, and the maximum memory of copies that run them in another form."""

    benchmark_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Resources:
    """The parts of the server that benchmarks use. `read` reads a model from its source, as the registry's does.

    A call that builds models holds `alone`: building would disturb another call's measurements, and the memory is meant for
    one call.
    """

    backend: Backend
    settings: BenchmarkSettings
    read: Callable[[LoadSpec, Report], LoadedModel]
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    building: Building = field(default_factory=Building)


def require_agreement(models: Sequence[LoadedModel], baseline: int) -> None:
    """Checks that all models predict what the baseline does: masks, or the same labels. Raises Unsupported, InvalidArgument."""
    first = models[baseline].encoder
    labelling = labelling_of(first.capabilities)
    for model in models:
        require_distribution(model)
        own = model.encoder
        if labelling is None:
            require_cloze(model)
        elif labelling is not labelling_of(own.capabilities) or first.shape.label_names != own.shape.label_names:
            message = f"{model.name} has other labels than {models[baseline].name}; leave agreement_texts out, or that model"
            raise InvalidArgument("agreement_texts", message, "LABELS_DIFFER", model=model.name)


def embeds(models: Sequence[LoadedModel], baseline: int) -> bool:
    """Returns whether models make vectors of texts though nobody asks for it: the baseline has no head, and all can."""
    heads = models[baseline].encoder.capabilities
    predicts = heads.masked_lm or heads.sequence_head or heads.token_classification or heads.question_answering
    return not predicts and all(
        model.encoder.capabilities.hidden_states
        and not model.encoder.capabilities.drops_tokens
        and not isinstance(model.declared, UnusableDeclaration)
        for model in models
    )


def require_embedding(models: Sequence[LoadedModel]) -> None:
    """Raises Unsupported for a model that makes no vectors of texts."""
    for model in models:
        require_states(model)
        embedding_of(model)


def embedding_of(model: LoadedModel) -> Embedding:
    """Returns the way in which EmbedTexts makes a model's vectors. Raises Unsupported for a pooling that can't be used."""
    return Embedding(None if model.declared is None else require_declared_pooling(model))


def subject_of(model: LoadedModel, loaded: LoadedModel, *, embed: bool) -> Subject:
    """Returns what is measured of a model, which may be a copy of the loaded one."""
    return Subject(model.encoder, model.tokenizer, embedding_of(loaded) if embed else None)


def make_plan(query: BenchmarkQuery, models: Sequence[LoadedModel], baseline: int) -> Plan:
    """Tokenizes and checks all texts, which takes seconds for many of them. Raises InvalidArgument."""
    inputs = make_inputs([subject_of(model, model, embed=query.embed) for model in models], query.measurement)
    questions: Sequence[Question] = ()
    shared: Sequence[Shared] = ()
    vectors: Sequence[StatesPlan] = ()
    if query.embed:
        vectors, top_k = make_vectors(query, models)
    else:
        questions, shared, top_k = make_questions(query, models, baseline)
    objectives: Sequence[Objective] = ()
    if query.objective is not None:
        objectives = build_objectives(query.objective, [partial(build, model=model) for model in models])
        check_draws(query.measurement.bootstrap, objectives[0].items, "measurement.bootstrap")
    return Plan(query, models, baseline, inputs, questions, shared, vectors, top_k, objectives)


def make_vectors(query: BenchmarkQuery, models: Sequence[LoadedModel]) -> tuple[Sequence[StatesPlan], int]:
    """Returns the plans of each model's vectors, and the number of neighbours. Raises InvalidArgument."""
    texts = query.agreement_texts
    if not texts:
        return (), 0
    if len(texts) < MIN_TEXTS:
        message = f"{FIELD} has {len(texts)} texts, whose neighbours can't be compared; give at least {MIN_TEXTS}"
        raise InvalidArgument(FIELD, message, "TOO_FEW_NEIGHBOURS", limit=MIN_TEXTS)
    most = len(texts) - 2
    if query.top_k is not None and query.top_k > most:
        message = f"top_k is {query.top_k} and {FIELD} has {len(texts)} texts; use at most {most}: all others agree always"
        raise InvalidArgument("top_k", message, "TOP_K_OUT_OF_RANGE", limit=most)
    fields = [f"{FIELD}[{index}]" for index in range(len(texts))]
    plans = [
        plan_vectors(texts, fields, model.tokenizer, model.encoder.shape, embedding_of(model).declared) for model in models
    ]
    return plans, query.top_k or min(USUAL_TOP_K, most)


def make_questions(
    query: BenchmarkQuery, models: Sequence[LoadedModel], baseline: int
) -> tuple[Sequence[Question], Sequence[Shared], int]:
    """Returns the questions for agreement, the shared pieces of each model, and the k. Raises InvalidArgument."""
    texts, first, tokenizers = query.agreement_texts, models[baseline], [model.tokenizer for model in models]
    if not texts:
        return (), (), 0
    labels, labelling = first.encoder.shape.label_names, labelling_of(first.encoder.capabilities)
    sizes = [labelling.choices(labels) if labelling else model.encoder.shape.vocabulary_size for model in models]
    if query.top_k is not None and query.top_k > min(sizes):
        message = f"top_k is {query.top_k} and the models choose among {min(sizes)} {'labels' if labelling else 'pieces'}"
        raise InvalidArgument("top_k", f"{message}; use at most that", "TOP_K_OUT_OF_RANGE", limit=min(sizes))
    top_k = query.top_k or min(USUAL_TOP_K, *sizes)
    if labelling:
        return label_questions(texts, tokenizers, labelling, labels), [Shared()] * len(models), top_k
    shared = [
        shared_pieces(first.tokenizer, tokenizer, (sizes[baseline], size), top_k)
        for tokenizer, size in zip(tokenizers, sizes, strict=True)
    ]
    return mask_questions(texts, tokenizers, query.measurement.bootstrap.seed), shared, top_k
