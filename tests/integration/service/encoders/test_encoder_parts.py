"""A layer in two parts, at some positions only, or with constant contexts gives what a whole one gives."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from bertscope_service.encoders.edits import BatchEdits, Edits
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.encoder import TorchEncoder

from tests.support.reference import UNIFORM, ZERO, Edit, HeadEdits, Subject, assert_close, assert_equal, gates_of
from tests.support.subjects import on_three

SCALED = Edit(keep=-1.5)
MODES = ("zero", "uniform", "scale", "mean")
IN_PARTS = {"albert", "bert", "distilbert", "electra", "roberta", "xlm-roberta"}
"""Architectures whose layers run in two parts; the others run them whole, and nothing may differ."""


@pytest.fixture(scope="module")
def packed(subject: Subject) -> TorchEncoder:
    return subject.load(pack=True)


def constant(encoder: TorchEncoder, seed: int) -> Edit:
    """A context that no text has, other than that of any other head."""
    return Edit(constant=np.random.default_rng(seed).normal(size=encoder.architecture.head_size).astype(np.float32))


def edits_in(encoder: TorchEncoder, mode: str, layer: int) -> HeadEdits:
    """Two heads of one layer changed alike, one of them the first."""
    change = {"zero": ZERO, "uniform": UNIFORM, "scale": SCALED}
    return {(layer, head): change.get(mode) or constant(encoder, head) for head in (0, 3)}


def mixed(encoder: TorchEncoder, layer: int, rows: int) -> list[Edits | None]:
    """Rows with each mode in one layer, with several at once, and without gates."""
    kinds: list[Edits | None] = [gates_of(encoder, edits_in(encoder, mode, layer)) for mode in MODES]
    several = {(layer, 0): ZERO, (layer, 1): UNIFORM, (layer, 2): SCALED, (layer, 3): constant(encoder, 9)}
    return [([*kinds, gates_of(encoder, several), None])[row % 6] for row in range(rows)]


def places(lengths: Sequence[int], kind: str) -> torch.Tensor:
    """Positions of each row, [rows, n]: one, some in no order, or some of them twice."""
    wanted = {"one": [0.5], "some": [1.0, 0.0, 0.4], "repeated": [0.7, 0.7, 0.0, 0.7]}[kind]
    return torch.tensor([[round(share * (length - 1)) for share in wanted] for length in lengths])


def finish(
    encoder: TorchEncoder, state: State, stop: int, placed: BatchEdits | None, only: torch.Tensor | None
) -> torch.Tensor:
    encoder.advance(state, stop, placed, only=only)
    assert state.layer == stop
    assert state.context is None
    return state.hidden


def same(found: torch.Tensor, whole: torch.Tensor, only: torch.Tensor, lengths: Sequence[int]) -> None:
    """What `only` left equals those positions of a whole run, row by row; padding does not count."""
    assert found.shape == (*only.shape, whole.shape[2])
    for row, length in enumerate(lengths):
        real = only[row] < length
        assert_close([found[row, real]], [whole[row, only[row, real]]], 1e-5)


@on_three
@torch.inference_mode()
def test_only_leaves_positions_out_where_it_can(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """It saves something: behind the attention of that layer there are the chosen positions and no others."""
    encoder, batch, seen = subject.encoder, subject.sequences[:3], list[int]()
    finish = encoder.architecture.finish

    def watched(index: int, context: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        seen.extend((context.shape[1], hidden.shape[1]))
        return finish(index, context, hidden)

    monkeypatch.setattr(encoder.architecture, "finish", watched)
    encoder.advance(encoder.begin(batch), 1, only=places(tuple(map(len, batch)), "one"))
    assert seen == ([1, 1] if subject.architecture in IN_PARTS else [])


@pytest.mark.slow
@pytest.mark.parametrize(("pack", "kind"), [(False, None), (True, "some")], ids=["all positions", "some of packed weights"])
@torch.inference_mode()
def test_attend_then_advance(subject: Subject, packed: TorchEncoder, pack: bool, kind: str | None) -> None:
    """From kept rows, stacked with others of other lengths, each with gates of its own in that layer and the next."""
    encoder, batch = packed if pack else subject.encoder, subject.sequences
    layers = encoder.shape.layers
    for layer in range(layers):
        later = mixed(encoder, min(layer + 1, layers - 1), len(batch))[::-1]
        gated = mixed(encoder, layer, len(batch))
        chosen = [late if index % 4 == 3 else here for index, (here, late) in enumerate(zip(gated, later, strict=True))]
        whole = encoder.begin(batch)
        encoder.advance(whole, layers, encoder.place_edits(chosen))
        state = encoder.begin(batch)
        encoder.advance(state, layer)
        encoder.attend(state)
        assert (state.context is not None) == (subject.architecture in IN_PARTS)
        kept = [state.row(row) for row in range(len(batch))]
        order = sorted(range(len(batch)), key=lambda index: (index * 7) % 5)
        for group in (order[:1], order[1:3], order[3:8], order[8:]):
            stacked = State.stack([kept[row] for row in group])
            lengths = [len(batch[row]) for row in group]
            only = None if kind is None else places(lengths, kind)
            found = finish(encoder, stacked, layers, encoder.place_edits([chosen[row] for row in group]), only)
            every = torch.arange(max(lengths)).repeat(len(group), 1)
            expected = torch.zeros(len(group), max(lengths), encoder.shape.hidden_size)
            for place, row in enumerate(group):
                expected[place, : lengths[place]] = whole.hidden[row, : lengths[place]]
            same(found, expected, every if only is None else only, lengths)


@on_three
@torch.inference_mode()
def test_who_watches_a_layer_with_a_context_sees_its_maps(subject: Subject) -> None:
    encoder, batch, plain, seen = subject.encoder, subject.sequences[:4], list[torch.Tensor](), list[torch.Tensor]()
    placed = encoder.place_edits(mixed(encoder, 1, len(batch)))
    whole, state = encoder.begin(batch), encoder.begin(batch)
    encoder.advance(whole, 2, placed, {1: lambda maps: plain.append(maps.clone())})
    encoder.advance(state, 1, placed)
    encoder.attend(state)
    encoder.advance(state, 2, placed, {1: lambda maps: seen.append(maps.clone())})
    assert_equal([*seen, state.hidden], [*plain, whole.hidden])
