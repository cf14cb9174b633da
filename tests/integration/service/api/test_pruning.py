"""PruneHeads: a model without heads answers as the whole one does with those heads at zero."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import model_pb2 as model
from bertscope_service.checkpoints.sources import Source
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, read_maps, refused
from tests.support.patience import granted, wait_until
from tests.support.sweeps import (
    LABELLED,
    MASKED,
    MEAN,
    SCALE,
    ZERO,
    Changes,
    Measurer,
    changed,
    cloze_prompts,
    divergence,
    head_set,
    heads_of,
    interventions,
    masked_lm,
    matrix,
    rank,
    sweep,
    text_input,
)
from tests.support.tiny import write_checkpoint

Heads = Mapping[int, tuple[int, ...]]
ALL = (0, 1, 2, 3)
PRUNED: dict[str, Heads] = {
    "one head": {1: (2,)},
    "several": {0: (3, 1), 2: (0,)},
    "a whole layer": {2: ALL},
    "all but one": {0: ALL, 1: ALL, 2: (0, 1, 3), 3: ALL},
}

EXISTS = grpc.StatusCode.ALREADY_EXISTS
FAILED = grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture(scope="module")
def folders(
    checkpoints: dict[str, Path], sorters: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("more")
    return checkpoints | sorters | {name: write_checkpoint(name, root / name) for name in ("modernbert", "albert")}


@pytest.fixture(scope="module")
def pruner(loop: LoopThread, folders: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folder}" for name, folder in folders.items()]) as running:
        yield running


@pytest.fixture(autouse=True)
def unchanged(pruner: Host) -> Iterator[None]:
    """Whatever a test prunes is unloaded afterwards, and the others are as before."""
    before = pruner.models.ListModels(model.ListModelsRequest())
    yield
    after = pruner.models.ListModels(model.ListModelsRequest())
    for entry in after.models[len(before.models) :]:
        unload(pruner, entry.name)
    assert list(after.models[: len(before.models)]) == list(before.models)


def prune(host: Host, name: str, heads: Heads, model_id: str = "pruned", **fields: Any) -> model.Model:
    request = request_of(heads, model=f"models/{name}", model_id=model_id, **fields)
    return host.ablation.PruneHeads(request, timeout=CALL_SECONDS).model


def request_of(heads: Heads, **fields: Any) -> ablation.PruneHeadsRequest:
    entries = [common.LayerHeads(layer=layer, heads=numbers) for layer, numbers in heads.items()]
    return ablation.PruneHeadsRequest(heads=entries, **fields)


def unload(host: Host, name: str) -> None:
    host.models.UnloadModel(model.UnloadModelRequest(name=name), timeout=CALL_SECONDS)


def get(host: Host, name: str) -> model.Model:
    return host.models.GetModel(model.GetModelRequest(name=name), timeout=CALL_SECONDS).model


def names(host: Host) -> list[str]:
    return [entry.name for entry in host.models.ListModels(model.ListModelsRequest()).models]


def zeros(heads: Heads) -> Changes:
    return {(layer, head): (ZERO, 1.0) for layer, numbers in heads.items() for head in numbers}


def within(name: str, heads: Heads) -> Heads:
    """Those in layers that the model has."""
    return {layer: numbers for layer, numbers in heads.items() if layer < (3 if name == "distilled" else 4)}


def answers(host: Host, name: str, folder: Path, changes: Changes) -> NDArray[np.float64]:
    """Log probabilities of all pieces at all masks, or of all labels."""
    by = Measurer(host, f"models/{name}", folder)
    if get(host, f"models/{name}").labels:
        return by.label_logs([text_input(text, pair) for text, pair, _ in LABELLED], changes)
    return np.concatenate(by.logs(MASKED, changes))


def maps_of(host: Host, name: str, changes: Changes) -> list[NDArray[np.float32]]:
    request = attention.ExtractAttentionRequest(
        model=f"models/{name}",
        inputs=[
            text_input("The cat sat."),
            text_input("The nurse told the doctor that her patient had been waiting.", "The man."),
        ],
        interventions=interventions(changes),
    )
    return [maps.values for maps in read_maps(host.attention.ExtractAttention(request, timeout=CALL_SECONDS))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "which"),
    [
        *(("bert", which) for which in ("several", "a whole layer", "all but one")),
        ("sorter", "several"),
        ("distilled", "all but one"),
        ("modernbert", "all but one"),
    ],
)
def test_a_pruned_model_answers_as_the_whole_one_with_heads_at_zero(
    pruner: Host, folders: dict[str, Path], name: str, which: str
) -> None:
    whole, heads = get(pruner, f"models/{name}"), within(name, PRUNED[which])
    pruned = prune(pruner, name, heads)
    assert pruned == get(pruner, "models/pruned")
    assert pruned.state == model.Model.STATE_READY
    assert pruned.source == f"models/{name}, pruned"
    assert {layer.layer: tuple(layer.heads) for layer in pruned.pruned_heads} == {
        layer: tuple(sorted(numbers)) for layer, numbers in heads.items()
    }
    assert [layer.layer for layer in pruned.pruned_heads] == sorted(heads)
    assert (pruned.layers, pruned.heads, pruned.hidden_size) == (whole.layers, whole.heads, whole.hidden_size)
    assert pruned.labels == whole.labels
    assert pruned.capabilities == whole.capabilities
    assert pruned.precision == whole.precision
    assert pruned.parameters < whole.parameters
    assert pruned.weight_bytes < whole.weight_bytes
    assert pruned.weights_digest != whole.weights_digest
    expected = answers(pruner, name, folders[name], zeros(heads))
    assert_allclose(answers(pruner, "pruned", folders[name], {}), expected, atol=1e-5)
    assert abs(answers(pruner, name, folders[name], {}) - expected).max() > 1e-3
    removed = [(layer, head) for layer, numbers in heads.items() for head in numbers]
    for found, gated in zip(maps_of(pruner, "pruned", {}), maps_of(pruner, name, zeros(heads)), strict=True):
        for layer, head in np.ndindex(found.shape[:2]):
            if (layer, head) in removed:
                assert not found[layer, head].any()
            else:
                assert_allclose(found[layer, head], gated[layer, head], atol=1e-5)
                assert found[layer, head].any()


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "factor"), [(MEAN, 1.0), (SCALE, 7.0)])
def test_interventions_on_heads_that_are_gone_change_nothing(
    pruner: Host, folders: dict[str, Path], mode: int, factor: float
) -> None:
    heads: Heads = {1: (0, 2), 3: ALL}
    prune(pruner, "bert", heads)
    untouched = answers(pruner, "pruned", folders["bert"], {})
    gone: Changes = {(layer, head): (mode, factor) for layer, numbers in heads.items() for head in numbers}
    assert_allclose(answers(pruner, "pruned", folders["bert"], gone), untouched, atol=1e-5)
    # One that is gone beside one that is there.
    mixed: Changes = {(1, 0): (mode, factor), (1, 1): (SCALE, 0.5)}
    alone: Changes = {(1, 1): (SCALE, 0.5)}
    assert_allclose(
        answers(pruner, "pruned", folders["bert"], mixed), answers(pruner, "pruned", folders["bert"], alone), atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["modernbert", "sorter"])
def test_a_saved_model_can_be_loaded_again(pruner: Host, folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    folder, heads = tmp_path / "new" / "saved", {0: (2,), 3: ALL}
    pruned = prune(pruner, name, heads, folder=str(folder))
    assert pruned.source == str(folder)
    request = model.LoadModelRequest(model_id="again", source=str(folder))
    *_, last = pruner.models.LoadModel(request, timeout=CALL_SECONDS)
    again = last.model
    assert again.pruned_heads == pruned.pruned_heads
    assert (again.weights_digest, again.parameters) == (pruned.weights_digest, pruned.parameters)
    assert again.weight_bytes == pruned.weight_bytes == sum(p.stat().st_size for p in folder.glob("*.safetensors"))
    for change in ({}, {(1, 1): (ZERO, 1.0)}):
        expected = answers(pruner, "pruned", folders[name], change)
        assert_allclose(answers(pruner, "again", folders[name], change), expected, atol=1e-6)
    assert {path.name for path in tmp_path.rglob("*")} >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert [path.name for path in folder.parent.iterdir()] == ["saved"]


@pytest.mark.slow
def test_sweeping_a_pruned_model(pruner: Host, folders: dict[str, Path]) -> None:
    heads: Heads = {1: (0, 2), 2: ALL}
    prune(pruner, "bert", heads)
    gone = {(layer, head) for layer, numbers in heads.items() for head in numbers}
    whole = Measurer(pruner, "models/bert", folders["bert"])
    objective = cloze_prompts()
    found = sweep(pruner, model="models/pruned", objective=objective)
    # Heads that are gone are left out, unless they are named.
    assert len(found.effects) == 10
    named = sweep(pruner, model="models/pruned", objective=objective, sets=[head_set(((1, (0,)),)), head_set(((2, ALL),))])
    layers = sweep(pruner, model="models/pruned", objective=objective, scope=ablation.SweepHeadsRequest.SCOPE_EVERY_LAYER)
    assert [heads_of(effect.heads)[0][0] for effect in layers.effects] == [0, 1, 3]
    for effect in (*found.effects, *named.effects[:1]):
        ((layer, (head,)),) = heads_of(effect.heads)
        expected = whole.scores(objective, changed(zeros(heads), ((layer, (head,)),), ZERO))
        assert_allclose([metric.score for metric in effect.metrics], expected, atol=1e-5)
        assert (abs(effect.metrics[2].difference) > 1e-5) == ((layer, head) not in gone)
    assert [metric.difference for metric in named.effects[1].metrics] == pytest.approx([0, 0, 0], abs=1e-5)
    greedy = ablation.Greedy(step=10)
    curve = sweep(pruner, model="models/pruned", objective=divergence(), greedy=greedy)
    # Heads that were pruned before are not counted: the ten that were left are all there was.
    assert [point.share_removed for point in curve.points] == [0, 1]
    half = sweep(
        pruner,
        model="models/pruned",
        objective=divergence(),
        sets=[head_set(((1, ALL),)), head_set(((2, ALL), (3, (0, 1, 2))))],
        greedy=ablation.Greedy(step=2),
    )
    assert half.points[-1].share_removed == pytest.approx(5 / 10)


@pytest.mark.slow
def test_ranking_a_pruned_model(pruner: Host) -> None:
    heads: Heads = {1: (0, 2), 2: ALL}
    prune(pruner, "bert", heads)
    objective = masked_lm(["The cat sat.", "The unplayable song."], mask_share=1.0)
    gradient = matrix(rank(pruner, model="models/pruned", objective=objective).gradient)
    base = interventions(zeros(heads))
    expected = matrix(rank(pruner, model="models/bert", objective=objective, interventions=base).gradient)
    importance = matrix(rank(pruner, model="models/pruned", objective=objective).importance)
    for layer, head in np.ndindex(expected.shape):
        if head in heads.get(layer, ()):
            assert gradient[layer, head] == importance[layer, head] == 0
        else:
            assert gradient[layer, head] == pytest.approx(expected[layer, head], abs=1e-5)
            assert gradient[layer, head] > 0
    norms = np.sqrt((importance**2).sum(axis=1))
    assert_allclose(norms, [1, 1, 0, 1], atol=1e-5)


# What is refused


def test_layers_that_share_their_weights_are_kept(pruner: Host) -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        prune(pruner, "albert", {0: (0,)})
    assert failures[0].info.reason == "PRUNING_UNSUPPORTED"


def test_a_folder_that_holds_something_is_left_alone(pruner: Host, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    for folder in (tmp_path, tmp_path / "mine"):
        with refused(EXISTS) as failures:
            prune(pruner, "bert", {0: (0,)}, folder=str(folder))
        assert failures[0].info.reason == "FOLDER_NOT_EMPTY"
        assert str(folder) in failures[0].message
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("mine", "precious")]
    assert "models/pruned" not in names(pruner)


def test_weights_that_changed_since_they_were_loaded(pruner: Host, folders: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["bert"], tmp_path / "copy"))
    list(pruner.models.LoadModel(model.LoadModelRequest(model_id="copy", source=str(copy)), timeout=CALL_SECONDS))
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-5] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    with refused(FAILED) as failures:
        prune(pruner, "copy", {0: (0,)}, folder=str(tmp_path / "saved"))
    assert failures[0].info.reason == "SOURCE_CHANGED"
    assert "load them again" in failures[0].message
    shutil.rmtree(copy)
    with refused(FAILED):
        prune(pruner, "copy", {0: (0,)}, folder=str(tmp_path / "saved"))
    assert not (tmp_path / "saved").exists()


# Cancelling


@pytest.fixture
def slow_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Semaphore, threading.Semaphore]]:
    """Digests wait: (released once by each that is there, to be acquired by each that may go on). The first is that of the
    original, the second that of the pruned weights."""
    there, go_on, digest = threading.Semaphore(0), threading.Semaphore(0), Source.digest

    def slow_digest(source: Source, report: Any) -> str:
        there.release()
        assert go_on.acquire(timeout=granted(60))
        return digest(source, report)

    monkeypatch.setattr(Source, "digest", slow_digest)
    yield there, go_on
    go_on.release(10)
    wait_until(nothing_is_read, "the reading threads end")


def in_flight(host: Host, method: str) -> float:
    return host.metric("bertscope_requests_in_flight", method=method)


def nothing_is_read() -> bool:
    return not any(thread.name.startswith("bertscope-load") for thread in threading.enumerate())


@pytest.mark.slow
@pytest.mark.parametrize(("digests", "saved"), [(1, False), (2, True)])
def test_a_cancelled_prune_leaves_nothing_behind(
    pruner: Host,
    slow_read: tuple[threading.Semaphore, threading.Semaphore],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    digests: int,
    saved: bool,
) -> None:
    there, go_on = slow_read
    temporary = tmp_path_factory.mktemp("temporary")  # of this test alone: others run beside it
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    folder = tmp_path / "saved" if saved else None
    before = names(pruner)
    request = request_of({0: (1,)}, model="models/bert", model_id="pruned", folder=str(folder or ""))
    call = pruner.ablation.PruneHeads.future(request, timeout=CALL_SECONDS)
    for number in range(digests):
        assert there.acquire(timeout=granted(20))
        if number < digests - 1:
            go_on.release()
    assert get(pruner, "models/pruned").state == model.Model.STATE_LOADING
    call.cancel()
    wait_until(lambda: names(pruner) == before, "it is forgotten")
    go_on.release(10)
    wait_until(nothing_is_read, "the reading thread ends")
    assert not list(tmp_path.iterdir())
    assert not list(temporary.iterdir())
    wait_until(lambda: in_flight(pruner, "PruneHeads") == 0, "the call ends")
    assert prune(pruner, "bert", {0: (1,)}, folder=str(folder or "")).state == model.Model.STATE_READY
