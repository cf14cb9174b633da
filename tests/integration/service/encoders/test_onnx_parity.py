"""Exported graphs give what transformers gives, for every architecture: alone and in padded batches, gated, in parts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.onnx.encoder import OnnxEncoder
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.architectures import ARCHITECTURES

from tests.support.exports import load_exported
from tests.support.family import FAMILY
from tests.support.reference import EDITS, Subject, all_logits, assert_close

EXPORTABLE = [name for name, member in FAMILY.items() if not ARCHITECTURES[name].unexportable(member.config)]
LIKE_OTHERS = FAMILY.keys() - {"bert", "mobilebert", "modernbert"}
"""Architectures whose layers are traced from the same operations as others'; an export takes seconds."""
ON_TWO = ("bert", "modernbert")
"""For what depends on no layer's operations."""


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slow if name in LIKE_OTHERS else ()) for name in EXPORTABLE]
)
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))


@pytest.fixture(scope="module")
def onnx(subject: Subject, export_cache: Path) -> OnnxEncoder:
    return load_exported(subject.folder, export_cache)


def test_watched_layers_equal_eager(subject: Subject, onnx: OnnxEncoder) -> None:
    """Hidden states of every layer, maps and logits; the longest text and one of a single token among them."""
    assert (onnx.shape, onnx.capabilities) == (subject.encoder.shape, subject.encoder.capabilities)
    assert (onnx.runtime, onnx.precision) == ("onnx", "fp32")
    assert onnx.resident_bytes > 0
    batch = subject.run(subject.sequences, encoder=onnx)
    for index, sequence in enumerate(subject.sequences):
        expected = subject.reference.alone(sequence).row(0)
        assert_close(batch.row(index), expected)
        assert_close(subject.run([sequence], encoder=onnx).row(0), expected)


@torch.inference_mode()
def test_fast_graph_equals_eager_at_the_positions_asked_for(subject: Subject, onnx: OnnxEncoder) -> None:
    batch = subject.sequences
    only = torch.tensor([[0, len(sequence) // 2, len(sequence) - 1] for sequence in batch])
    state = onnx.begin(batch)
    onnx.advance(state, onnx.shape.layers, only=only)
    assert state.hidden.shape == (len(batch), 3, onnx.shape.hidden_size)
    rows, places = torch.arange(len(batch)).repeat_interleave(3), torch.arange(3).repeat(len(batch))
    found = onnx.logits(state, rows, places).view(len(batch), 3, -1)
    for index, sequence in enumerate(batch):
        assert_close([found[index]], [subject.reference.alone(sequence).logits[0, only[index]]])
    whole = onnx.begin(batch)
    onnx.advance(whole, onnx.shape.layers)
    assert_close([all_logits(onnx, whole)[1, : len(batch[1])]], [subject.reference.alone(batch[1]).logits[0]])


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
@torch.inference_mode()
def test_rows_are_embedded_only_if_somebody_sees_their_layers(
    subject: Subject, onnx: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = []
    embed = onnx._embed
    monkeypatch.setattr(onnx, "_embed", lambda feeds: embedded.append(1) or embed(feeds))
    onnx.advance(onnx.begin(subject.sequences), onnx.shape.layers)
    assert embedded == []
    onnx.advance(onnx.begin(subject.sequences), onnx.shape.layers, watch={0: lambda maps: None})
    assert embedded == [1]


@pytest.mark.slow
def test_gates_equal_edited_maps(subject: Subject, onnx: OnnxEncoder) -> None:
    """Of every kind, in rows between others without gates; watched and not."""
    names = iter(EDITS)
    edits = [EDITS[next(names)] if index % 3 else None for index in range(len(subject.sequences))]
    gates = [None if row is None else subject.gates(row) for row in edits]
    for watch in (True, False):
        batch = subject.run(subject.sequences, gates, encoder=onnx, watch=watch)
        for index, (sequence, row) in enumerate(zip(subject.sequences, edits, strict=True)):
            expected = subject.reference.alone(sequence) if row is None else subject.reference.run_edited(sequence, row)
            assert_close(batch.row(index), (expected if watch else replace(expected, maps=[])).row(0))


@torch.inference_mode()
def test_constants_and_taps_equal_torch(subject: Subject, onnx: OnnxEncoder) -> None:
    """What mean ablation adds, and what it is taken from."""
    shape, size = subject.encoder.shape, subject.encoder.architecture.head_size
    ones = np.ones((shape.layers, shape.heads), dtype=np.float32)
    vectors = np.random.default_rng(1).normal(size=(shape.heads, size)).astype(np.float32)
    gates = [Edits(ones, 0 * ones, {1: vectors, shape.layers - 1: -vectors}), None, None]
    seen: list[list[torch.Tensor]] = []
    for encoder in (onnx, subject.encoder):
        state, tapped = encoder.begin(subject.sequences[:3]), list[torch.Tensor]()
        taps = {layer: lambda context, tapped=tapped: tapped.append(context.clone()) for layer in range(shape.layers)}
        encoder.advance(state, shape.layers, encoder.place_edits(gates), taps=taps)
        real = [tensor[row, ..., :length, :] for tensor in (*tapped, state.hidden) for row, length in enumerate(state.lengths)]
        seen.append(real)
    assert_close(*seen)


@pytest.mark.parametrize("subject", ON_TWO, indirect=True)
@torch.inference_mode()
def test_kept_states_go_on_as_if_never_stopped(subject: Subject, onnx: OnnxEncoder) -> None:
    """From a row's own state with its contexts, beside rows of other lengths, at some positions of the last layer."""
    layers, gate = onnx.shape.layers, subject.gates(EDITS["mixed"])
    batch, stop = subject.sequences[:4], 2
    state = onnx.begin(batch)
    onnx.advance(state, stop)
    onnx.attend(state)
    kept = State.stack([state.row(index) for index in (2, 0)])
    onnx.advance(kept, layers, onnx.place_edits([gate, None]), only=torch.tensor([[1, 0], [0, 2]]))
    late = subject.gates({place: edit for place, edit in EDITS["mixed"].items() if place[0] >= stop})
    for place, (index, edits) in enumerate(((2, late), (0, None))):
        whole = subject.encoder.begin([batch[index]])
        subject.encoder.advance(whole, layers, subject.encoder.place_edits([edits]))
        positions = [[1, 0], [0, 2]][place]
        assert_close([kept.hidden[place]], [whole.hidden[0, positions]])


@pytest.mark.parametrize("subject", ON_TWO, indirect=True)
@torch.inference_mode()
def test_watchers_see_a_layer_whose_contexts_are_kept(subject: Subject, onnx: OnnxEncoder) -> None:
    """Contexts are no reason to leave out its maps."""
    seen: list[list[torch.Tensor]] = []
    for encoder in (onnx, subject.encoder):
        state, maps = encoder.begin(subject.sequences[:1]), list[torch.Tensor]()
        encoder.attend(state)
        encoder.advance(state, 1, watch={0: lambda one, maps=maps: maps.append(one.clone())})
        seen.append([*maps, state.hidden])
    assert_close(*seen)
