"""Checkpoints without some heads: what is left answers as the whole one does with those heads closed, can be read and loaded
by what reads the whole one, and can be pruned again."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.encoders.sites import Change, Site
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.errors import FailedPrecondition, Unsupported
from bertscope_service.models import runtimes
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.registry import Registry
from bertscope_service.observability.metrics import Metrics
from safetensors.torch import load_file, save_file

from tests.support.edited_files import edit_tensors, say
from tests.support.exports import READ
from tests.support.pruned import HEADS, SETS, Heads, Whole, gates, load, prune, run, weights
from tests.support.reference import assert_close
from tests.support.rounding import BOTH_SIDES
from tests.support.tiny import write_checkpoint

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


@pytest.fixture
def copy(bert: Path, tmp_path: Path) -> Path:
    """A checkpoint that may be changed."""
    return Path(shutil.copytree(bert, tmp_path / "copy"))


def test_the_folder_has_all_that_loading_takes(bert: Path, tmp_path: Path) -> None:
    whole = {path.name: path.read_bytes() for path in bert.iterdir()}
    (copy := tmp_path / "copy").mkdir()
    for path in bert.iterdir():
        (copy / path.name).symlink_to(path)  # as the hub's cache keeps them
    for name in ("vocab.txt", "special_tokens_map.json", "README.md"):
        (copy / name).write_text("x")
    found = prune(copy, {1: (2,)}, tmp_path / "new" / "deep" / "pruned")
    names = {path.name for path in found.iterdir()}
    assert names == {path.name for path in bert.iterdir()} | {"vocab.txt", "special_tokens_map.json", "bertscope.json"}
    assert not any(path.is_symlink() for path in found.iterdir())
    assert (found / "tokenizer.json").read_bytes() == (bert / "tokenizer.json").read_bytes()
    assert inspect(found).architecture == "bert"
    assert whole == {path.name: path.read_bytes() for path in bert.iterdir()}
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (bert, found))
    assert after == before | {"bertscope_pruned_heads": {"1": [2]}}


@pytest.mark.parametrize(("dtype", "said"), [(torch.bfloat16, "float32"), (torch.float16, None)])
def test_weights_keep_the_format_they_are_stored_in(copy: Path, tmp_path: Path, dtype: torch.dtype, said: str | None) -> None:
    edit_tensors(
        copy / "model.safetensors", lambda weights: weights.update({name: one.to(dtype) for name, one in weights.items()})
    )
    say(copy / "config.json", dtype=said)
    found = load_file(prune(copy, {1: (2,)}, tmp_path / "pruned") / "model.safetensors")
    assert {values.dtype for values in found.values()} == {dtype}
    name = "bert.encoder.layer.1.attention.self.query.weight"
    expected = load_file(copy / "model.safetensors")[name].unflatten(0, (4, 8))[[0, 1, 3]].flatten(0, 1)
    assert torch.equal(found[name], expected)


def test_shards_become_one_file(copy: Path, tmp_path: Path) -> None:
    weights = load_file(copy / "model.safetensors")
    parts = {"a.safetensors": sorted(weights)[::2], "b.safetensors": sorted(weights)[1::2]}
    for part, names in parts.items():
        save_file({name: weights[name] for name in names}, copy / part, {"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: part for part, names in parts.items() for name in names}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    whole = prune(copy, {1: (2,)}, tmp_path / "of one file")
    (copy / "model.safetensors").unlink()
    sharded = prune(copy, {1: (2,)}, tmp_path / "of shards")
    assert (sharded / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_albert_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="layers share weights") as caught:
        prune(write_checkpoint("albert", tmp_path / "whole"), {1: (2,)}, tmp_path / "pruned")
    assert caught.value.reason == "PRUNING_UNSUPPORTED"
    assert not (tmp_path / "pruned").exists()


def test_albert_can_not_lack_heads(tmp_path: Path) -> None:
    folder = write_checkpoint("albert", tmp_path / "whole")
    say(folder / "config.json", bertscope_pruned_heads={"1": [2]})
    with pytest.raises(FailedPrecondition, match="albert models can't be removed"):
        load("albert", folder)


class Models:
    """A registry whose models are really read, on an event loop of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.registry = Registry(Metrics(), READ, no_warm_up)

    def load(self, folder: Path) -> LoadedModel:
        spec = LoadSpec("whole", str(folder), "auto", "fp32")
        return self.runner.run(self.registry.load(spec, lambda _: None))

    def prune(
        self, loaded: LoadedModel, heads: dict[int, tuple[int, ...]], model_id: str, folder: Path | None = None
    ) -> LoadedModel:
        return self.runner.run(self.registry.prune(loaded, model_id, heads, folder, lambda _: None))

    def unload(self, name: str) -> None:
        self.runner.run(self.registry.unload(name))


async def no_warm_up(loaded: LoadedModel) -> LoadedModel:
    return loaded


@pytest.fixture
def models() -> Iterator[Models]:
    made = Models()
    yield made
    made.runner.close()


def test_a_pruned_model_can_be_pruned(models: Models, bert: Path, tmp_path: Path) -> None:
    """Whether it was saved or not, and whether its original is still loaded or not."""
    whole = models.load(bert)
    once = models.prune(whole, {0: (1,), 1: (0, 2)}, "once", tmp_path / "once")
    unsaved = models.prune(whole, {1: (2,)}, "unsaved")
    models.unload("models/whole")
    twice = models.prune(unsaved, {0: (1,)}, "twice")
    assert twice.spec.source == "models/unsaved, pruned"
    models.unload("models/unsaved")
    thrice = models.prune(twice, {1: (0,)}, "thrice", tmp_path / "thrice")
    assert thrice.weights_digest == once.weights_digest
    further = models.prune(thrice, {2: (3,)}, "further")
    assert further.encoder.shape.pruned == {0: (1,), 1: (0, 2), 2: (3,)}


def test_what_can_not_be_read_is_not_kept(models: Models, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = models.load(bert)

    def too_large(*_: object, **__: object) -> None:
        raise FailedPrecondition("does not fit", "DEVICE_MEMORY")

    monkeypatch.setattr(runtimes, "load_encoder", too_large)
    with pytest.raises(FailedPrecondition, match="does not fit"):
        models.prune(whole, {1: (2,)}, "pruned", tmp_path / "saved")
    assert [entry.spec.name for entry in models.registry.entries()] == ["models/whole"]
    assert not (tmp_path / "saved").exists()
