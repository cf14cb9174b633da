"""The first runs of a model, before anybody waits for one: kernels are chosen and memory pools filled here, and it is found out
which of several runtimes is the fastest."""

from __future__ import annotations

import logging
import math
import statistics
import time
from dataclasses import replace

from bertscope_service.analyses.attention import AttentionPlan, AttentionQuery
from bertscope_service.analyses.classification import ClassifyPlan, ClassifyQuery
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.analyses.observer import Observer
from bertscope_service.encoders.base import Encoder, TokenSequence
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.rows import Row
from bertscope_service.loaded import LoadedModel
from bertscope_service.tokenization import MASK

WORDS = (2, 20, 100)
"""Lengths of the texts, in words; a model that reads less gets them cut."""


ROUNDS = 5
"""So often rivals are timed in turn."""

COPIES = 8
"""Texts of a batch that is timed; a single text is timed too."""

logger = logging.getLogger(__name__)

Inputs = list[tuple[TokenSequence, Observer]]


async def warm_up(engine: Engine, model: LoadedModel) -> LoadedModel:
    """Run all that a model can do at some lengths; if it has rivals, the fastest one that can serves it from then on.

    What this raises says that the model can't run here.
    """
    if not model.rivals:
        await _run(engine, model.encoder, _inputs(model))
        return model
    usable: list[Encoder] = []
    first: Exception | None = None
    for encoder in (model.encoder, *model.rivals):
        try:
            await _run(engine, encoder, _inputs(model))
        except Exception as error:  # noqa: BLE001 - whatever it is, there is another one
            logger.warning("%s can't be served by %s: %s", model.name, encoder.runtime, error)
            first = first or error
        else:
            usable.append(encoder)
    if not usable and first is not None:
        raise first
    chosen = usable[0] if len(usable) == 1 else await _fastest(engine, model, usable)
    if chosen.runtime == "torch" and model.scratch is not None:
        # It is all in memory; the folder goes with its last reader, and nothing can be read from it again.
        return replace(model, encoder=chosen, rivals=(), scratch=None, source=None)
    return replace(model, encoder=chosen, rivals=())


def _inputs(model: LoadedModel) -> Inputs:
    """Rows for every path: the heads that it has, and fused and explicit attention."""
    shape, tokenizer = model.encoder.shape, model.tokenizer
    texts = tuple(MASK + " a" * words for words in WORDS)
    pairs = tuple((text, None) for text in texts)
    inputs: Inputs = []
    if shape.has_masked_lm_head and tokenizer.mask_id is not None:
        inputs += ClozePlan(ClozeQuery(texts, 1, (), truncate=True), tokenizer).rows
    if shape.labels:
        inputs += ClassifyPlan(ClassifyQuery(pairs, truncate=True), tokenizer, shape.labels).rows
    if shape.observable:
        query = AttentionQuery(pairs, (0,), (0,), 4, words=False, truncate=True)
        plans = (AttentionPlan(query, index, tokenizer) for index in range(len(texts)))
        inputs += [(plan.sequence, plan.steps[0]) for plan in plans]
    return inputs


async def _fastest(engine: Engine, model: LoadedModel, encoders: list[Encoder]) -> Encoder:
    """The encoder whose median times, of one text and of a batch, have the smallest product."""
    text = _inputs(model)[1]
    loads = ([text], [text] * COPIES)
    times: dict[tuple[int, int], list[float]] = {}
    for _ in range(ROUNDS):
        for number, encoder in enumerate(encoders):
            for load, inputs in enumerate(loads):
                began = time.perf_counter()
                await _run(engine, encoder, inputs)
                times.setdefault((number, load), []).append(time.perf_counter() - began)
    costs = [math.prod(statistics.median(times[number, load]) for load in range(len(loads))) for number in range(len(encoders))]
    best = encoders[costs.index(min(costs))]
    for encoder, cost in zip(encoders, costs, strict=True):
        if encoder is not best:
            faster = math.sqrt(cost / min(costs))
            logger.info("%s is served by %s, %.2f times as fast as %s", model.name, best.runtime, faster, encoder.runtime)
    return best


async def _run(engine: Engine, encoder: Encoder, inputs: Inputs) -> None:
    rows = [Row(encoder, sequence, observer) for sequence, observer in inputs]
    await engine.run(rows, client="warm-up", admitted=True)
