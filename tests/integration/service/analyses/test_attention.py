"""Attention maps, put together from their steps, against transformers' eager ones."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from bertscope_service.analyses import layer_steps
from bertscope_service.analyses.attention import AttentionObserver, AttentionQuery, TextPlan
from bertscope_service.analyses.layer_steps import LayerStep
from bertscope_service.analyses.observers.quantities import Quantity
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.state import State
from numpy.typing import NDArray

from tests.support.reference import Subject
from tests.support.tiny import SENTENCES

INPUTS: tuple[tuple[str, str | None], ...] = (
    (SENTENCES[0], None),
    ("The unplayable café recorded the unplayable song.", None),
    ("The unplayable song was recorded.", SENTENCES[1]),
    (SENTENCES[-1], None),
)


def query_of(
    layers: Sequence[int],
    heads: Sequence[int],
    *,
    dtype: torch.dtype = torch.float32,
    words: bool = False,
    truncate: bool = False,
) -> AttentionQuery:
    return AttentionQuery(INPUTS, tuple(layers), tuple(heads), dtype, words, truncate)


@torch.inference_mode()
def run_step(
    subject: Subject, rows: Sequence[tuple[TextPlan, AttentionObserver, State | None]], gates: Edits | None = None
) -> list[LayerStep]:
    """One step of some plans in one batch."""
    encoder = subject.encoder
    states = [state for _, _, state in rows if state is not None]
    state = State.stack(states) if states else encoder.begin([plan.sequence for plan, _, _ in rows])
    placed = encoder.place_edits([gates] * len(rows))
    readout = AttentionObserver.run(encoder, state, placed, [observer for _, observer, _ in rows])
    steps: list[LayerStep] = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
    return steps


def assemble(subject: Subject, plan: TextPlan, gates: Edits | None = None) -> NDArray[np.float32]:
    """All maps of a text, each written where the plan says that it belongs."""
    dtype = np.dtype(np.float32 if plan.query.dtype is torch.float32 else np.float16)
    buffer = np.zeros(plan.bytes, dtype=np.uint8)
    state: State | None = None
    for observer in plan.steps:
        (step,) = run_step(subject, [(plan, observer, state)], gates)
        state = step.state
        assert (state is None) == (observer is plan.steps[-1])
        assert step.values.dtype == dtype
        for layer, maps in zip(observer.layers, step.values, strict=True):
            place = plan.offset(layer)
            assert maps.nbytes == plan.layer_bytes
            buffer[place : place + maps.nbytes] = np.ascontiguousarray(maps).view(np.uint8).reshape(-1)
    return buffer.view(dtype).reshape(plan.shape)


def test_texts_of_one_batch_are_cropped(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that ask for other layers, heads, formats and words share a batch if they run the same layers."""
    monkeypatch.setattr(layer_steps, "STEP_BYTES", 1 << 30)
    asked = [
        query_of([0, 2], [1, 0]),
        query_of([2], [3], words=True),
        query_of([2, 1], [0, 1, 2, 3], dtype=torch.float16),
        query_of([2, 1, 0], [2]),
    ]
    plans = [TextPlan(query, index, subject.tokenizer, subject.encoder.device) for index, query in enumerate(asked)]
    assert {plan.steps[0].group for plan in plans} == {(0, 3, Quantity.WEIGHTS, None)}
    steps = run_step(subject, [(plan, plan.steps[0], None) for plan in plans])
    for plan, step in zip(plans, steps, strict=True):
        order = [plan.steps[0].layers.index(layer) for layer in plan.query.layers]
        alone = assemble(subject, plan)
        assert step.state is None
        np.testing.assert_allclose(step.values[order].astype(np.float32), alone.astype(np.float32), rtol=0, atol=1e-3)
