"""A model without some heads computes what the whole one computes with their gates closed, and is smaller by just them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from bertscope_service.encoders.sites import Change, Site
from bertscope_service.encoders.torch.encoder import TorchEncoder
from safetensors.torch import load_file

from tests.support.pruned import HEADS, SETS, Heads, Whole, gates, load, prune, run, weights
from tests.support.reference import assert_close
from tests.support.rounding import BOTH_SIDES

on_three = pytest.mark.parametrize(
    "whole", [("bert", 0), ("mobilebert", 0), ("modernbert", 3)], ids=lambda it: f"{it[0]}-{it[1]}", indirect=True
)
SHARE = BOTH_SIDES
"""How far values may be apart, as a share of the largest: sums of fewer products are rounded differently."""


@pytest.mark.slow
def test_pruned_equals_closed_gates(whole: Whole) -> None:
    """In a padded batch and alone; and exactly the weights of those heads are gone."""
    before = load_file(whole.folder / "model.safetensors")
    for name in SETS:
        pruned = check(whole, name, pack=False)
        removed, after = whole.parameters_of(whole.heads(name)), load_file(whole.without(name) / "model.safetensors")
        assert whole.encoder.shape.parameters - pruned.shape.parameters == removed > 0
        assert sum(one.numel() for one in before.values()) - sum(one.numel() for one in after.values()) == removed
        assert len(weights(whole.folder)) - len(weights(whole.without(name))) >= 4 * removed
        assert {key for key in after if torch.equal(after[key], before[key])} >= {key for key in after if "mbeddings" in key}
    (plain,), (closed,) = (
        run(whole.encoder, whole.sequences[:1]),
        run(whole.encoder, whole.sequences[:1], [gates(whole.encoder, SETS["one head"])]),
    )
    assert float((plain[-1] - closed[-1]).abs().max()) > 100 * SHARE * float(plain[-1].abs().max())


@pytest.mark.slow
@on_three
@pytest.mark.parametrize("name", ["several layers", "a layer and more"])
def test_packed_weights_without_heads_equal_closed_gates(whole: Whole, name: str) -> None:
    check(whole, name, pack=True)


def check(whole: Whole, name: str, *, pack: bool) -> TorchEncoder:
    closed = gates(whole.encoder, whole.heads(name))
    pruned = load(whole.architecture, whole.without(name), pack=pack)
    expected = run(whole.encoder, whole.sequences, [closed] * len(whole.sequences))
    for found, wanted in zip(run(pruned, whole.sequences), expected, strict=True):
        assert_close(found, wanted, SHARE)
    for index, sequence in enumerate(whole.sequences):
        assert_close(run(pruned, [sequence])[0], expected[index], SHARE)
    return pruned


@on_three
@pytest.mark.parametrize("name", ["a layer and more", "all heads"])
def test_changes_at_sites_keep_the_original_numbers(whole: Whole, name: str) -> None:
    """Also of heads that are gone, which changes nothing, and in layers without heads."""
    pruned, closed = load(whole.architecture, whole.without(name)), gates(whole.encoder, whole.heads(name))
    places, every = np.array([0, 2]), np.arange(4)
    changes = (
        Change(Site.HEAD_OUTPUT, 0, places, np.array([1, 2]), 0.5),
        Change(Site.HEAD_OUTPUT, 1, places, keep=-1.0),
        Change(Site.ATTENTION, 2, places, np.array([0, 1]), keys=np.array([0])),
        Change(Site.ATTENTION_OUTPUT, 0, places, keep=0.5),
        Change(Site.FEED_FORWARD_OUTPUT, 1, places, keep=0.5),
    )
    batch = [row for row in whole.sequences if len(row) > len(every)]
    ours, theirs = (
        run(encoder, batch, [replace(edits, changes=changes).at(row) for row in batch])
        for encoder, edits in ((pruned, gates(pruned, {})), (whole.encoder, closed))
    )
    for found, wanted in zip(ours, theirs, strict=True):
        assert_close(found, wanted, SHARE)
    (plain,) = run(pruned, batch[:1])
    assert float((plain[-1] - ours[0][-1]).abs().max()) > 100 * SHARE * float(plain[-1].abs().max())


@pytest.mark.slow
@on_three
@pytest.mark.parametrize("name", ["several layers", "a layer and more"])
@torch.inference_mode()
def test_interventions_and_maps_keep_the_original_numbers(whole: Whole, name: str) -> None:
    """Also on heads that are gone, which changes nothing; their maps are zeros."""
    heads, pruned = whole.heads(name), load(whole.architecture, whole.without(name))
    uniform = gates(pruned, {0: (1,), 1: (2,), 2: (3,)}, 0.0, 1.0)
    both = gates(whole.encoder, {0: (1,), 1: (2,), 2: (3,)}, 0.0, 1.0)
    for layer, gone in heads.items():
        both.keep[layer, gone] = both.uniform[layer, gone] = 0
    batch = whole.sequences[:3]
    expected = run(whole.encoder, batch, [None, both, gates(whole.encoder, heads)], watch=True)
    found = run(pruned, batch, [None, uniform, None], watch=True)
    layers = whole.encoder.shape.layers
    for row in (1, 2):
        for layer, gone in heads.items():
            assert not found[row][layers + layer][list(gone)].any()
            expected[row][layers + layer][list(gone)] = 0
        assert_close(found[row], expected[row], SHARE)


@pytest.mark.slow
@on_three
def test_pruning_twice_is_pruning_once(whole: Whole) -> None:
    """To the byte, also a whole layer in two steps; heads that are gone already are ignored."""
    steps: list[Heads] = [{1: (2,)}, {0: (3,), 1: (0, 2)}, {1: (1, 3)}]
    once = prune(whole.folder, {0: (3,), 1: HEADS}, whole.root / "once")
    folder = whole.folder
    for number, heads in enumerate(steps):
        folder = prune(folder, heads, whole.root / f"step {number}")
    again = prune(folder, {1: (0,)}, whole.root / "again")
    for one in (folder, again):
        assert weights(one) == weights(once)
        assert (one / "config.json").read_text() == (once / "config.json").read_text()
    written = json.loads((once / "config.json").read_text())["bertscope_pruned_heads"]
    assert written == {"0": [3], "1": [0, 1, 2, 3]}
