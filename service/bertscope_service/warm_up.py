"""The first runs of a model, before anybody waits for one: kernels are chosen and memory pools filled here."""

from __future__ import annotations

from bertscope_service.analyses.attention import AttentionPlan, AttentionQuery
from bertscope_service.analyses.classification import ClassifyPlan, ClassifyQuery
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.rows import Row
from bertscope_service.registry import LoadedModel
from bertscope_service.tokenization import MASK

WORDS = (2, 20, 100)
"""Lengths of the texts, in words; a model that reads less gets them cut."""


async def warm_up(engine: Engine, model: LoadedModel) -> None:
    """Run both paths, fused and explicit attention, at some lengths. What it raises says that the model can't run here."""
    shape, tokenizer = model.encoder.shape, model.tokenizer
    texts = tuple(MASK + " a" * words for words in WORDS)
    inputs = tuple((text, None) for text in texts)
    rows = []
    if shape.has_masked_lm_head and tokenizer.mask_id is not None:
        plan = ClozePlan(ClozeQuery(texts, 1, (), truncate=True), tokenizer)
        rows += [Row(model.encoder, sequence, observer) for sequence, observer in plan.rows]
    if shape.labels:
        classify = ClassifyPlan(ClassifyQuery(inputs, truncate=True), tokenizer, shape.labels)
        rows += [Row(model.encoder, sequence, probe) for sequence, probe in classify.rows]
    query = AttentionQuery(inputs, (shape.layers - 1,), (0,), 4, words=False, truncate=True)
    for index in range(len(texts)):
        attention = AttentionPlan(query, index, tokenizer)
        rows.append(Row(model.encoder, attention.sequence, attention.steps[0]))
    await engine.run(rows, client="warm-up", admitted=True)
