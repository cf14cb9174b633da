"""Hidden states, put together from their steps, against transformers' own `output_hidden_states`."""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses import layer_steps
from bertscope_service.analyses.layer_steps import LayerStep
from bertscope_service.analyses.observers.pooling import Pooling
from bertscope_service.analyses.observers.state_quantities import StateQuantity, dimensions
from bertscope_service.analyses.state_units import StatesInput, Unit
from bertscope_service.analyses.states import StatesObserver, StatesPlan, StatesQuery, TextStates
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.steps import RemoveHeads
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.state import State
from bertscope_service.errors import InvalidArgument
from numpy.typing import NDArray

from tests.support.compressed import made
from tests.support.reference import Reference, Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.tiny import SENTENCES

INPUTS = (
    StatesInput(SENTENCES[0]),
    StatesInput("The unplayable café recorded the unplayable song."),
    StatesInput("The unplayable song was recorded.", SENTENCES[1]),
    StatesInput(SENTENCES[-1]),
)
CLOSE = BOTH_SIDES
"""Tolerance, as a share of the largest number, of packed weights and of ONNX Runtime."""


def plan_of(subject: Subject, layers: Sequence[int] = (), dtype: torch.dtype = torch.float32) -> StatesPlan:
    shape = subject.encoder.shape
    asked = tuple(layers) or tuple(range(shape.layers + 1))
    return StatesPlan(StatesQuery(INPUTS, asked, dtype, truncate=False), subject.tokenizer, (shape.hidden_size,))


@torch.inference_mode()
def extract(encoder: Encoder, texts: Sequence[TextStates], gates: Edits | None = None) -> list[NDArray[np.floating]]:
    """All states of some texts, which share the batch of each step."""
    found: list[list[NDArray[np.floating]]] = [[] for _ in texts]
    states: list[State | None] = [None] * len(texts)
    for number, _ in enumerate(texts[0].steps):
        observers: list[StatesObserver] = [text.steps[number] for text in texts]
        assert len({observer.group for observer in observers}) == 1
        kept = [state for state in states if state is not None]
        state = State.stack(kept) if kept else encoder.begin([text.sequence for text in texts])
        readout = StatesObserver.run(encoder, state, encoder.place_edits([gates] * len(texts)), observers)
        steps: list[LayerStep] = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
        states = [step.state for step in steps]
        for gathered, step in zip(found, steps, strict=True):
            assert step.finite
            gathered.extend(step.values)
    assert states == [None] * len(texts)
    order = [sorted(texts[0].layers).index(layer) for layer in texts[0].layers]
    return [np.stack(layers)[order] for layers in found]


def expected(reference: Reference, text: TextStates) -> NDArray[np.float32]:
    """[layers, tokens, hidden_size] as requested, from transformers, which runs the text alone."""
    hidden = reference.run([text.sequence]).hidden
    return torch.cat([hidden[layer] for layer in text.layers]).numpy()


def assert_near(found: NDArray[np.floating], wanted: NDArray[np.floating]) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


@torch.inference_mode()
def share_a_batch(subject: Subject, texts: Sequence[TextStates]) -> list[LayerStep]:
    """The first steps of some texts, run together."""
    state = subject.encoder.begin([text.sequence for text in texts])
    readout = StatesObserver.run(subject.encoder, state, None, [text.steps[0] for text in texts])
    return list(readout.deal(tuple(tensor.numpy() for tensor in readout.tensors)))


def test_layers_of_texts_that_share_a_batch_may_differ(subject: Subject) -> None:
    texts = [plan_of(subject, layers).texts[row] for row, layers in enumerate([(3, 1), (3,), (0, 3)])]
    for text, step in zip(texts, share_a_batch(subject, texts), strict=True):
        order = [sorted(text.layers).index(layer) for layer in text.layers]
        assert_near(step.values[order], expected(subject.reference, text))
        assert_near(extract(subject.encoder, [text])[0], expected(subject.reference, text))


def test_states_that_are_not_finite_are_noticed(subject: Subject) -> None:
    """A state beyond float16 is one, and spoils no other text of its batch."""
    texts = [plan_of(subject, (0,), dtype).texts[0] for dtype in (torch.float32, torch.float16)]
    with torch.inference_mode():
        state = subject.encoder.begin([text.sequence for text in texts])
        state.hidden = state.hidden + 1e6
        readout = StatesObserver.run(subject.encoder, state, None, [text.steps[0] for text in texts])
        steps = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
    assert [step.finite for step in steps] == [True, False]


MARKED = (
    StatesInput("The unplayable café recorded the unplayable song.", None, (Span(4, 19, 0), Span(0, 3, 0))),
    StatesInput("The unplayable song was recorded.", "The cat sat.", (Span(4, 7, 1), Span(4, 19, 0))),
)
POOL = {
    Pooling.FIRST: lambda rows: rows[:, 0],
    Pooling.LAST: lambda rows: rows[:, -1],
    Pooling.MEAN: lambda rows: rows.mean(axis=1, dtype=np.float64),
    Pooling.MAX: lambda rows: rows.max(axis=1),
}


def groups_of(subject: Subject, given: StatesInput, unit: Unit) -> list[list[int]]:
    """Positions of the pieces of each unit, the slow way."""
    pieces = subject.tokenizer.encode(given.text, given.pair).pieces(subject.tokenizer)
    if unit is Unit.TEXT:
        return [list(range(len(pieces)))]
    if unit is Unit.SPAN:
        return [
            [
                place
                for place, piece in enumerate(pieces)
                if not piece.special and piece.segment == span.segment and span.start <= piece.start < span.end
            ]
            for span in given.spans
        ]
    names = [(piece.segment, piece.word) if piece.word is not None else place for place, piece in enumerate(pieces)]
    return [[place for place, name in enumerate(names) if name == one] for one in dict.fromkeys(names)]


@pytest.mark.slow
@pytest.mark.parametrize("unit", [Unit.WORD, Unit.SPAN, Unit.TEXT])
def test_pieces_are_joined(subject: Subject, unit: Unit) -> None:
    for pooling in Pooling:
        check_joined(subject, unit, pooling)


def check_joined(subject: Subject, unit: Unit, pooling: Pooling) -> None:
    inputs = MARKED if unit is Unit.SPAN else tuple(StatesInput(given.text, given.pair) for given in MARKED)
    query = StatesQuery(inputs, (3, 0), torch.float32, truncate=False, unit=unit, pooling=pooling)
    plan = StatesPlan(query, subject.tokenizer, (subject.encoder.shape.hidden_size,))
    for given, text, found in zip(inputs, plan.texts, extract(subject.encoder, plan.texts), strict=True):
        states, groups = expected(subject.reference, text), groups_of(subject, given, unit)
        assert all(groups)
        assert len(text.tokens) == (0 if unit is Unit.TEXT else len(groups))
        assert_near(found, np.stack([POOL[pooling](states[:, group]) for group in groups], axis=1))
        assert text.bytes == found.nbytes


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_bfloat16_is_float32_rounded(subject: Subject) -> None:
    for wide, narrow in zip(plan_of(subject).texts, plan_of(subject, dtype=torch.bfloat16).texts, strict=True):
        (found,) = extract(subject.encoder, [narrow])
        assert found.nbytes == narrow.bytes
        widened = torch.from_numpy(found).view(torch.bfloat16)
        assert torch.equal(widened, torch.from_numpy(extract(subject.encoder, [wide])[0]).bfloat16())


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_spans_that_are_cut_or_hold_no_piece(subject: Subject) -> None:
    text = "cat " * 100
    for spans, reason in (([Span(0, 400, 0)], "SPAN_TRUNCATED"), ([Span(396, 399, 0)], "SPAN_TRUNCATED")):
        query = StatesQuery((StatesInput(text, None, tuple(spans)),), (0,), torch.float32, truncate=True, unit=Unit.SPAN)
        with pytest.raises(InvalidArgument) as caught:
            StatesPlan(query, subject.tokenizer, (32,))
        assert (caught.value.field, caught.value.reason) == ("spans[0].spans[0]", reason)


CONTEXTS = {"distilbert": "attention.out_lin", "albert": "attention.dense", "modernbert": "attn.Wo"}
ACTIVATIONS = {"distilbert": "ffn.lin2", "albert": "ffn_output", "modernbert": "mlp.Wo"}
READERS = {
    StateQuantity.HEAD_CONTEXTS: (CONTEXTS, "attention.output.dense"),
    StateQuantity.FEED_FORWARD_ACTIVATIONS: (ACTIVATIONS, "output.dense"),
}
"""Paths of the modules that read a quantity, below a layer of transformers: by architecture, and that of the others."""


def read_by(subject: Subject, quantity: StateQuantity, run: Callable[[], object]) -> NDArray[np.float32]:
    """[layers, tokens, size] of what transformers' own modules read in a run of one text, layer by layer."""
    seen: list[torch.Tensor] = []
    usual, otherwise = READERS[quantity]
    path = re.compile(rf".*layers?\.\d+\.{re.escape(usual.get(subject.architecture, otherwise))}")
    found = [module for name, module in subject.reference.model.named_modules() if path.fullmatch(name)]
    hooks = [module.register_forward_pre_hook(lambda _, read: seen.append(read[0].clone())) for module in found]
    run()
    for hook in hooks:
        hook.remove()
    assert len(seen) == subject.encoder.shape.layers
    return torch.cat(seen).numpy()


def quantity_plan(
    subject: Subject, encoder: Encoder, quantity: StateQuantity, layers: Sequence[int] = (), **fields: Any
) -> StatesPlan:
    asked = tuple(layers) or tuple(range(encoder.shape.layers))
    sizes = dimensions(encoder, quantity)
    assert sizes is not None
    query = StatesQuery(INPUTS, asked, torch.float32, truncate=False, quantity=quantity, **fields)
    return StatesPlan(query, subject.tokenizer, sizes)


@pytest.mark.slow
@pytest.mark.two_architectures
@pytest.mark.parametrize("quantity", READERS)
def test_quantities_are_what_the_modules_of_transformers_read(
    subject: Subject, quantity: StateQuantity, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone and in a padded batch, in one step and in a step for each layer, packed, and contexts by ONNX Runtime, too."""
    encoders: list[Encoder] = [subject.encoder, subject.load(pack=True)]
    if quantity is StateQuantity.HEAD_CONTEXTS:
        encoders.append(encoder)
    for step_bytes, one in [(1 << 30, one) for one in encoders] + [(1, subject.encoder)]:
        monkeypatch.setattr(layer_steps, "STEP_BYTES", step_bytes)
        texts = quantity_plan(subject, one, quantity).texts
        for text, together in zip(texts, extract(one, texts), strict=True):
            wanted = read_by(subject, quantity, partial(subject.reference.run, [text.sequence]))
            assert text.bytes == together.nbytes
            assert (*text.shape[:2], math.prod(text.shape[2:])) == wanted.shape
            assert_near(together, wanted)
            assert_near(extract(one, [text])[0], wanted)


@pytest.mark.parametrize("quantity", READERS)
def test_quantities_under_interventions(subject: Subject, quantity: StateQuantity) -> None:
    """Contexts are those before the interventions on their own layer; activations are behind them."""
    text, edits = quantity_plan(subject, subject.encoder, quantity).texts[1], {(0, 1): (0.0, 0.0), (0, 2): (0.5, 0.5)}
    plain = read_by(subject, quantity, partial(subject.reference.run, [text.sequence]))
    edited = read_by(subject, quantity, partial(subject.reference.run_edited, text.sequence, edits))
    found = extract(subject.encoder, [text], subject.gates(edits))[0]
    assert np.abs(edited - plain).max() > 0.01
    assert_near(found[1:], edited[1:])
    assert_near(found[0], (plain if quantity is StateQuantity.HEAD_CONTEXTS else edited)[0])


@pytest.mark.parametrize("quantity", READERS)
def test_quantities_beside_other_calls(subject: Subject, quantity: StateQuantity) -> None:
    """Calls that end at one layer share a batch, whatever the units and the other layers are."""
    pieces = quantity_plan(subject, subject.encoder, quantity, (2, 0)).texts[0]
    whole = quantity_plan(subject, subject.encoder, quantity, (2,), unit=Unit.TEXT).texts[1]
    assert pieces.steps[0].group == whole.steps[0].group != plan_of(subject, (2,)).texts[0].steps[0].group
    first, second = share_a_batch(subject, [pieces, whole])
    wanted = [read_by(subject, quantity, partial(subject.reference.run, [text.sequence])) for text in (pieces, whole)]
    assert_near(first.values, wanted[0][[0, 2]])
    assert_near(second.values, wanted[1][[2]].mean(axis=1, keepdims=True))


@pytest.mark.slow
@pytest.mark.parametrize("gone", [(0, 2), (0, 1, 2, 3)], ids=["some", "all"])
def test_contexts_of_removed_heads_are_zeros(checkpoint: Callable[[str], Path], tmp_path: Path, gone: tuple[int, ...]) -> None:
    folder = made(checkpoint("bert"), tmp_path / "pruned", RemoveHeads({1: gone}))
    subject = Subject("bert", folder)
    texts = quantity_plan(subject, subject.encoder, StateQuantity.HEAD_CONTEXTS).texts
    found = extract(subject.encoder, texts)[0].reshape(texts[0].shape)
    assert not found[1][:, gone].any()
    assert np.abs(np.delete(found[1], gone, axis=1)).sum() > 0 or len(gone) == 4
    assert found[0].all()
    assert found[2].all()
    for text in quantity_plan(subject, subject.encoder, StateQuantity.FEED_FORWARD_ACTIVATIONS).texts:
        assert all(layer.any() for layer in extract(subject.encoder, [text])[0])
