"""The first runs of a model, before any call: they choose kernels, fill memory pools, and choose between several libraries."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import torch

from bertscope_service.analyses.attention import AttentionPlan, AttentionQuery
from bertscope_service.analyses.classification import ClassifyPlan, ClassifyQuery
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.analyses.next_sentence import next_sentence_rows
from bertscope_service.analyses.observers.answers import AnswerObserver
from bertscope_service.analyses.observers.token_labels import TokenLabelObserver
from bertscope_service.checkpoints.mask_names import MASK
from bertscope_service.encoders.base import Captures, Encoder
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.rows import Row
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.models.runtime_choice import RuntimeChoice, only
from bertscope_service.models.runtime_timing import choose
from bertscope_service.models.saturation import measure_saturation

WORDS = (2, 20, 100)
"""Lengths of the texts, in words; a model with fewer positions gets them cut."""

logger = logging.getLogger(__name__)

Inputs = list[tuple[TokenSequence, Observer]]


async def warm_up(engine: Engine, model: LoadedModel) -> LoadedModel:
    """Runs every kind of row at some lengths; if the model has alternatives, one encoder is chosen to serve it from then on.
    On a GPU, measures then how large a batch may be before it takes longer.

    Raises the errors of a model that can't run here.
    """
    model = await _first_runs(engine, model)
    encoder = model.encoder
    if encoder.device.type == "cuda" and isinstance(encoder, Captures):
        async with engine.lease(encoder.device, refuse=False) as lease:
            await lease.call(encoder.capture, encoder=encoder, tokens=engine.batch_tokens(encoder.device))
    if inputs := _inputs(model):
        await measure_saturation(engine, model.encoder, inputs[len(inputs) > 1][0])
    return model


async def _first_runs(engine: Engine, model: LoadedModel) -> LoadedModel:
    """Runs the model, and returns it with one encoder."""
    if not model.alternatives:
        try:
            await _run(engine, model.encoder, _inputs(model))
        except Exception:
            # The stored choice can't run: the next load tries both.
            if model.remember is not None:
                choices, key = model.remember
                await asyncio.to_thread(choices.forget, key)
            raise
        return model
    usable: list[Encoder] = []
    failed: dict[str, Exception] = {}
    for encoder in (model.encoder, *model.alternatives):
        try:
            await _run(engine, encoder, _inputs(model))
        except Exception as error:  # noqa: BLE001 - whatever it is, there is another one
            logger.warning("%s can't be served by %s: %s", model.name, encoder.runtime, error)
            failed[encoder.runtime] = error
        else:
            usable.append(encoder)
    if not usable:
        raise next(iter(failed.values()))
    if failed:
        choice = only(usable[0].runtime, model.encoder.device, f"it can't be run by {', '.join(failed)}; the log says why")
    else:
        choice = await _choose(engine, model, usable)
    chosen = next(encoder for encoder in usable if encoder.runtime == choice.runtime)
    model = replace(model, encoder=chosen, alternatives=(), choice=choice)
    if chosen.runtime == "torch" and model.temporary is not None:
        # The model is in memory; its temporary folder is deleted, so that it can't be read again.
        return replace(model, temporary=None, source=None)
    return model


def _inputs(model: LoadedModel) -> Inputs:
    """Returns rows for every path: the model's heads, and fused and explicit attention."""
    capabilities, tokenizer = model.encoder.capabilities, model.tokenizer
    texts = tuple(MASK + " a" * words for words in WORDS)
    pairs = tuple((text, None) for text in texts)
    inputs: Inputs = []
    if capabilities.masked_lm and tokenizer.mask_id is not None:
        inputs += ClozePlan(ClozeQuery(texts, 1, (), truncate=True), tokenizer).rows
    if capabilities.sequence_head:
        inputs += ClassifyPlan(ClassifyQuery(pairs, truncate=True), tokenizer, ()).rows
    if capabilities.token_classification and not capabilities.drops_tokens:
        inputs += [
            (tokenized.sequence, TokenLabelObserver((0,)))
            for tokenized in tokenizer.encode_all([(text,) for text in texts], truncate=True)
        ]
    if capabilities.question_answering and not capabilities.drops_tokens:
        asked = tokenizer.encode_all([(text, text) for text in texts], truncate=True)
        inputs += [(tokenized.sequence, AnswerObserver()) for tokenized in asked]
    if capabilities.next_sentence:
        inputs += next_sentence_rows(tokenizer.encode_all([(text, text) for text in texts], truncate=True))
    if capabilities.observable:
        query = AttentionQuery(pairs, (0,), (0,), torch.float32, words=False, truncate=True)
        inputs += AttentionPlan(query, tokenizer, model.encoder.device).rows
    return inputs


async def _choose(engine: Engine, model: LoadedModel, encoders: list[Encoder]) -> RuntimeChoice:
    """Measures the libraries, chooses one, and stores the choice."""
    choice = await choose(engine, encoders, _inputs(model)[1][0])
    if model.remember is not None:
        choices, key = model.remember
        choice = await asyncio.to_thread(choices.remember, key, choice)
    other = next(encoder.runtime for encoder in encoders if encoder.runtime != choice.preferred)
    words = f"{other} is {choice.speedup:.2f} [{choice.low:.2f}, {choice.high:.2f}] times as fast as {choice.preferred}"
    logger.info("%s is served by %s: %s over %d rounds", model.name, choice.runtime, words, choice.rounds)
    return choice


async def _run(engine: Engine, encoder: Encoder, inputs: Inputs) -> None:
    rows = [Row(encoder, sequence, observer) for sequence, observer in inputs]
    await engine.run(rows, client="warm-up", admitted=True)
