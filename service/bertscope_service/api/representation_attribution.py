"""AttributeLogits of the RepresentationService: who adds what to a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import numpy as np
from bertscope.v1 import representation_lens_pb2 as lens_pb2
from numpy.typing import NDArray

from bertscope_service.ablation.evaluation import Change, Evaluation
from bertscope_service.ablation.prefix import state_sizes
from bertscope_service.ablation.sweep_plan import every_head
from bertscope_service.analyses.attribution import AttributedInput, AttributionPlan, AttributionQuery
from bertscope_service.analyses.interventions import Interventions, Mode
from bertscope_service.analyses.observers.attribution import AttributionScores
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.checks import read_text
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.matrices import render_matrix
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import refuse_sites, require_cloze, require_observable
from bertscope_service.encoders.decomposition import Part, decomposition_of
from bertscope_service.engine.rows import Row
from bertscope_service.errors import Unsupported
from bertscope_service.models.loaded import LoadedModel


async def attribute_logits(
    backend: Backend, request: lens_pb2.AttributeLogitsRequest, context: Context, memory_bytes: int
) -> lens_pb2.AttributeLogitsResponse:
    """Answers AttributeLogits. `memory_bytes`: maximum memory for the states that ablations share."""
    with backend.registry.use(request.model) as model:
        refuse_sites(request, "its terms would no longer add up; leave site_interventions out, or ask SweepSites")
        call = Call.of(backend, model, context)
        plan, conditions = await call.read(request, plan_attribution)
        backend.reply_memory.hold(call.client, plan.reply_bytes)
        means = await call.means(conditions)
        edits, rows, encoder = conditions.interventions.edits(means), plan.rows, model.encoder

        def row(number: int) -> Row:
            return Row(encoder, *rows[number], edits)

        async with aclosing(call.bulk().results([len(sequence) for sequence, _ in rows], row)) as results:
            found = [result async for result in results]
        falls = None
        if plan.query.ablate:
            falls = await ablate(call, plan, Change(Mode.ZERO, 1.0, means), conditions.interventions, memory_bytes)
        return render_attribution(plan, found, falls, model)


async def ablate(
    call: Call, plan: AttributionPlan, change: Change, interventions: Interventions, memory_bytes: int
) -> NDArray[np.float64]:
    """Returns by how much the difference of each text falls without each head, [texts, layers, heads]."""
    shape, objective = call.model.encoder.shape, plan.objective
    needed = max(state_sizes(call.model.encoder, [len(sequence) for sequence in objective.sequences]))
    memory_bytes = max(memory_bytes, needed)
    make = partial(Evaluation, call.model.encoder, objective, call.bulk(), change, memory_bytes)
    evaluation = await call.compute(make)
    (whole,) = await evaluation.baseline(interventions)
    falls = np.zeros((len(whole), shape.layers, shape.heads))
    sets = every_head(shape.layers, shape.heads)
    async with aclosing(evaluation.changed(interventions, sets)) as measured:
        async for ((layer, (head,)),), (without,) in measured:
            falls[:, layer, head] = whole - without
    return falls


def plan_attribution(request: lens_pb2.AttributeLogitsRequest, model: LoadedModel, limits: RequestLimits) -> AttributionPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that is no exact sum of its parts."""
    require_cloze(model)
    require_observable(model)
    decomposition = decomposition_of(model.encoder)
    why = (
        f"its layers can't be taken apart in {model.encoder.runtime}; load it with runtime torch"
        if decomposition is None
        else decomposition.refusal(Part.STREAM)
    )
    if why is not None:
        raise Unsupported(f"{model.name} can't attribute logits: {why}", "NO_ATTRIBUTION", model=model.name)
    inputs = tuple(map(_read_input, request.inputs))
    query = AttributionQuery(inputs, request.ablate, request.truncate, limits.tokens)
    return AttributionPlan(query, model.tokenizer, model.encoder.shape)


def _read_input(given: lens_pb2.AttributedInput) -> AttributedInput:
    mask = given.mask if given.HasField("mask") else None
    return AttributedInput(*read_text(given), (given.answer, given.other_answer), mask)


def render_attribution(
    plan: AttributionPlan, results: Sequence[AttributionScores], falls: NDArray[np.float64] | None, model: LoadedModel
) -> lens_pb2.AttributeLogitsResponse:
    response = lens_pb2.AttributeLogitsResponse(provenance=render_provenance(model))
    for index, (text, found) in enumerate(zip(plan.texts, plan.answer(results), strict=True)):
        answer, other = (lens_pb2.VocabularyEntry(token=word.text, id=word.pieces[0]) for word in text.answers)
        response.results.add(
            token_index=text.position,
            answer=answer,
            other_answer=other,
            difference=found.difference,
            heads=render_matrix(found.heads),
            feed_forward=found.feed_forward.tolist(),
            attention_biases=found.biases.tolist(),
            normalisation_shifts=found.shifts.tolist(),
            embeddings=found.embeddings,
            head_biases=found.head,
            ablated=None if falls is None else render_matrix(falls[index]),
            tokens=len(text.tokenized),
            truncated_tokens=text.tokenized.truncated,
        )
    return response
