"""Attention maps of rows that share a batch, against transformers' eager ones."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from bertscope_service.analyses import layer_steps
from bertscope_service.analyses.attention import AttentionObserver, AttentionQuery, TextPlan
from bertscope_service.analyses.observers.quantities import Quantity

from tests.support.reference import Subject
from tests.support.tiny import SENTENCES

INPUTS: tuple[tuple[str, str | None], ...] = (
    (SENTENCES[0], None),
    ("The unplayable café recorded the unplayable song.", None),
    ("The unplayable song was recorded.", SENTENCES[1]),
)


@torch.inference_mode()
def test_texts_of_one_batch_are_cropped(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that ask for other layers, heads, formats and words share a batch if they run the same layers."""
    monkeypatch.setattr(layer_steps, "STEP_BYTES", 1 << 30)

    def plan_of(index: int, layers: Sequence[int], heads: Sequence[int], dtype: torch.dtype, *, words: bool) -> TextPlan:
        query = AttentionQuery(INPUTS, tuple(layers), tuple(heads), dtype, words, truncate=False)
        return TextPlan(query, index, subject.tokenizer, subject.encoder.device)

    plans = [
        plan_of(0, [0, 2], [1, 0], torch.float32, words=False),
        plan_of(1, [2], [3], torch.float32, words=True),
        plan_of(2, [2, 1], [0, 1, 2, 3], torch.float16, words=False),
    ]
    assert {plan.steps[0].group for plan in plans} == {(0, 3, Quantity.WEIGHTS, None)}
    state = subject.encoder.begin([plan.sequence for plan in plans])
    readout = AttentionObserver.run(subject.encoder, state, None, [plan.steps[0] for plan in plans])
    steps = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
    for plan, step in zip(plans, steps, strict=True):
        maps = subject.reference.alone(plan.sequence).maps
        expected = torch.stack([maps[layer][0, list(plan.query.heads)] for layer in plan.query.layers]).numpy()
        found = step.values[[plan.steps[0].layers.index(layer) for layer in plan.query.layers]].astype(np.float32)
        assert step.state is None
        assert found.nbytes * step.values.itemsize // 4 == plan.bytes
        if plan.query.words:
            assert found.shape[-1] < expected.shape[-1]
            np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-5)
        else:
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
