"""Exports of checkpoints that lack something: a head, heads of layers, a token that stands for the whole text."""

from pathlib import Path

import pytest
import torch
from bertscope_service.checkpoints.steps import KeepLayers
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.onnx.encoder import OnnxEncoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.encoder import TorchEncoder

from tests.support.compressed import made
from tests.support.edited_files import say
from tests.support.exports import load_exported
from tests.support.pruned import HEADS, gates, load, prune
from tests.support.reference import assert_close
from tests.support.tiny import write_checkpoint

ROWS = [TokenSequence(list(range(5, 25)), [0] * 12 + [1] * 8), TokenSequence([7], [0]), TokenSequence([9, 8, 9], [0] * 3)]
GONE = {0: HEADS, 1: (0, 1, 3), 3: HEADS}
"""A first and a last layer without heads, and one that keeps a single one."""

Pair = tuple[OnnxEncoder, TorchEncoder]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, export_cache: Path) -> Pair:
    """Without a masked-LM head, and without most heads."""
    root = tmp_path_factory.mktemp("bare")
    folder = prune(write_checkpoint("bert", root / "whole", head=False), GONE, root / "pruned")
    return load_exported(folder, export_cache), load("bert", folder)


@pytest.fixture(scope="module")
def averaging(tmp_path_factory: pytest.TempPathFactory, export_cache: Path) -> Pair:
    """A classifier that reads the mean of all tokens."""
    root = tmp_path_factory.mktemp("averaging")
    whole = write_checkpoint("modernbert", root / "sorter", labels=3)
    folder = made(whole, root / "short", KeepLayers((0,)))
    say(folder / "config.json", classifier_pooling="mean")
    return load_exported(folder, export_cache), load("modernbert", folder)


def seen(encoder: Encoder, changed: list[Edits | None], only: torch.Tensor | None = None) -> list[torch.Tensor]:
    """Maps, contexts and hidden states of the real tokens."""
    found: list[torch.Tensor] = []
    layers = range(encoder.shape.layers)
    state = encoder.begin(ROWS)
    maps, contexts = [], list[torch.Tensor]()
    watch = {layer: lambda one: maps.append(one.clone()) for layer in layers}
    taps = {layer: lambda one: contexts.append(one.clone()) for layer in layers}
    encoder.advance(state, len(layers), encoder.place_edits(changed), watch, taps=taps, only=only)
    for row, length in enumerate(state.lengths):
        found += [one[row, :, :length, :length] for one in maps] + [one[row, :, :length] for one in contexts]
        found.append(state.hidden[row] if only is not None else state.hidden[row, :length])
    return found


@pytest.mark.slow
@torch.inference_mode()
def test_layers_without_heads(bare: Pair) -> None:
    onnx, whole = bare
    assert (onnx.shape, onnx.capabilities) == (whole.shape, whole.capabilities)
    assert not onnx.capabilities.masked_lm
    assert onnx.shape.pruned == GONE
    changed = [gates(whole, {1: (2,), 2: (1,)}, keep=0.5, uniform=1.0), None, gates(whole, {0: (1,)})]
    positions = torch.tensor([[19, 0, 19], [0, 0, 0], [2, 1, 2]])
    for only in (None, positions):
        for gated in (changed, [None] * 3):
            assert_close(seen(onnx, gated, only), seen(whole, gated, only))
        fast = [encoder.begin(ROWS) for encoder in bare]
        for encoder, state in zip(bare, fast, strict=True):
            # Edits that are all open change nothing, whichever graph runs them.
            encoder.advance(state, 4, encoder.place_edits([gates(whole, {}), None, None]), only=only)
        assert_close([fast[0].hidden[row, :1] for row in range(3)], [fast[1].hidden[row, :1] for row in range(3)])


@pytest.mark.slow
@torch.inference_mode()
def test_a_mean_over_real_tokens(averaging: Pair) -> None:
    onnx, whole = averaging
    assert onnx.reads_first is False
    assert onnx.shape.labels == whole.shape.labels
    found = []
    for encoder in averaging:
        states = [encoder.begin(ROWS), *(encoder.begin([row]) for row in ROWS)]
        for state in states:
            encoder.advance(state, encoder.shape.layers)
        found.append([encoder.classify(state) for state in states])
    assert_close(*found)
    assert_close([found[0][0]], [torch.cat(found[0][1:])])
