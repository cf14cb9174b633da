"""PruneHeads: a model without heads answers as the whole one does with those heads at zero."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import model_pb2 as model
from bertscope_service.checkpoints.sources import Source
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.models import runtimes
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from tests.support.harness import CALL_SECONDS, Host, LoopThread, held, launched, read_maps, refused
from tests.support.patience import granted, wait_until
from tests.support.sweeps import (
    LABELLED,
    MASKED,
    MEAN,
    SCALE,
    UNIFORM,
    ZERO,
    Changes,
    Measurer,
    changed,
    cloze_prompts,
    divergence,
    head_set,
    heads_of,
    interventions,
    labelled,
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
ARCHITECTURES = ("bert", "roberta", "modernbert", "sorter", "distilled")
"""Models to prune, by id."""

INVALID, EXISTS = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS
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


@pytest.mark.parametrize("which", PRUNED)
@pytest.mark.parametrize("name", ARCHITECTURES)
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


def test_the_reply_of_a_pruned_model_names_it(pruner: Host) -> None:
    pruned = prune(pruner, "bert", {0: (1,)})
    provenance = pruner.cloze.FillMask(cloze.FillMaskRequest(model=pruned.name, texts=MASKED), timeout=CALL_SECONDS).provenance
    assert provenance.model == "models/pruned"
    assert provenance.weights_digest == pruned.weights_digest
    assert pruner.metric("bertscope_model_weight_bytes", model="models/pruned") == pruned.weight_bytes


@pytest.mark.parametrize("name", ["bert", "distilled", "modernbert"])
def test_head_numbers_stay_what_they_were(pruner: Host, folders: dict[str, Path], name: str) -> None:
    heads: Heads = {1: (0, 2), 2: (1,)}
    prune(pruner, name, heads)
    for change in (
        {(1, 1): (ZERO, 1.0)},
        {(1, 3): (UNIFORM, 1.0)},
        {(2, 0): (SCALE, -1.5), (1, 3): (SCALE, 0.5)},
        {(1, 1): (MEAN, 1.0), (2, 3): (MEAN, 1.0)},
        {(0, 2): (UNIFORM, 1.0), (2, 3): (ZERO, 1.0)},
    ):
        if any(mode == MEAN for mode, _ in change.values()):
            continue  # means are of the model that is asked, and so not those of the whole one
        found = answers(pruner, "pruned", folders[name], change)
        # As low as -15, of which float32 has seven digits, and CPUs add up in orders of their own.
        expected = answers(pruner, name, folders[name], zeros(heads) | change)
        assert_allclose(found, expected, rtol=3e-6, atol=1e-5)
        assert abs(found - answers(pruner, "pruned", folders[name], {})).max() > 1e-4


@pytest.mark.parametrize(("mode", "factor"), [(ZERO, 1.0), (UNIFORM, 1.0), (MEAN, 1.0), (SCALE, 7.0)])
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


def test_means_of_heads_that_stay(pruner: Host, folders: dict[str, Path]) -> None:
    """In the lowest pruned layer, heads read what they read in the whole model, so their means are the same."""
    heads: Heads = {1: (0, 2)}
    prune(pruner, "bert", heads)
    change: Changes = {(1, 1): (MEAN, 1.0), (1, 3): (MEAN, 1.0)}
    expected = answers(pruner, "bert", folders["bert"], zeros(heads) | change)
    assert_allclose(answers(pruner, "pruned", folders["bert"], change), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "modernbert", "sorter"])
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


def test_an_empty_folder_is_taken(pruner: Host, tmp_path: Path) -> None:
    pruned = prune(pruner, "bert", {0: (0,)}, folder=str(tmp_path))
    assert pruned.source == str(tmp_path)
    assert (tmp_path / "model.safetensors").exists()


@pytest.mark.slow
def test_pruning_a_pruned_model(pruner: Host, folders: dict[str, Path], tmp_path: Path) -> None:
    prune(pruner, "bert", {0: (1,), 2: (3,)}, "first")
    # A head that is gone already is no error, and heads that stay have their own numbers.
    second = prune(pruner, "first", {0: (1, 2), 1: (0,)}, "second")
    all_heads: Heads = {0: (1, 2), 1: (0,), 2: (3,)}
    assert {layer.layer: tuple(layer.heads) for layer in second.pruned_heads} == all_heads
    expected = answers(pruner, "bert", folders["bert"], zeros(all_heads))
    assert_allclose(answers(pruner, "second", folders["bert"], {}), expected, atol=1e-5)
    at_once = prune(pruner, "bert", all_heads, "at-once")
    assert at_once.weights_digest == second.weights_digest
    # The same by way of a saved model.
    saved = prune(pruner, "bert", {0: (1,), 2: (3,)}, "saved", folder=str(tmp_path / "saved"))
    assert saved.weights_digest == get(pruner, "models/first").weights_digest
    unload(pruner, "models/first")
    third = prune(pruner, "saved", {0: (2,), 1: (0,)}, "third")
    assert third.pruned_heads == second.pruned_heads
    assert third.weights_digest == second.weights_digest
    fourth = prune(pruner, "second", {3: (0,)}, "fourth", folder=str(tmp_path / "fourth"))
    assert len(fourth.pruned_heads) == 4
    for name in ("saved", "second", "third", "at-once"):
        unload(pruner, f"models/{name}")
    expected = answers(pruner, "bert", folders["bert"], zeros(all_heads | {3: (0,)}))
    assert_allclose(answers(pruner, "fourth", folders["bert"], {}), expected, atol=1e-5)


def test_only_heads_that_are_gone(pruner: Host, folders: dict[str, Path]) -> None:
    first = prune(pruner, "bert", {1: (0, 3)}, "first")
    same = prune(pruner, "first", {1: (3,)}, "same")
    assert same.weights_digest == first.weights_digest
    assert same.pruned_heads == first.pruned_heads


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


def test_a_sweep_of_a_pruned_classifier(pruner: Host, folders: dict[str, Path]) -> None:
    heads: Heads = {0: (0, 1), 2: (3,)}
    prune(pruner, "sorter", heads)
    whole = Measurer(pruner, "models/sorter", folders["sorter"])
    found = sweep(pruner, model="models/pruned", objective=labelled(), mode=UNIFORM)
    for effect in found.effects:
        ((layer, (head,)),) = heads_of(effect.heads)
        changes = dict(zeros(heads))
        if head not in heads.get(layer, ()):
            changes[layer, head] = (UNIFORM, 1.0)
        assert_allclose([metric.score for metric in effect.metrics], whole.scores(labelled(), changes), atol=1e-5)


def test_the_original_may_go(pruner: Host, folders: dict[str, Path]) -> None:
    request = model.LoadModelRequest(model_id="original", source=str(folders["bert"]))
    list(pruner.models.LoadModel(request, timeout=CALL_SECONDS))
    prune(pruner, "original", {1: (0,)})
    expected = answers(pruner, "pruned", folders["bert"], {})
    unload(pruner, "models/original")
    assert_allclose(answers(pruner, "pruned", folders["bert"], {}), expected, atol=1e-6)
    again = prune(pruner, "pruned", {1: (1,)}, "again")
    assert [tuple(layer.heads) for layer in again.pruned_heads] == [(0, 1)]


def test_the_original_stays_as_it_was(pruner: Host, folders: dict[str, Path]) -> None:
    before = answers(pruner, "bert", folders["bert"], {})
    prune(pruner, "bert", dict.fromkeys(range(4), ALL))
    assert (answers(pruner, "bert", folders["bert"], {}) == before).all()
    unload(pruner, "models/pruned")
    assert (answers(pruner, "bert", folders["bert"], {}) == before).all()


def test_no_name_means_the_default_model_and_no_heads_all_of_a_layer(pruner: Host) -> None:
    pruned = pruner.ablation.PruneHeads(request_of({2: ()}, model_id="pruned"), timeout=CALL_SECONDS).model
    assert pruned.source == "models/bert, pruned"
    assert [(layer.layer, list(layer.heads)) for layer in pruned.pruned_heads] == [(2, [0, 1, 2, 3])]


def test_a_model_without_head_can_be_pruned(pruner: Host) -> None:
    pruned = prune(pruner, "headless", {1: (2,)})
    assert model.CAPABILITY_CLOZE not in pruned.capabilities
    assert not maps_of(pruner, "pruned", {})[0][1, 2].any()


# What is refused

BAD: dict[str, tuple[grpc.StatusCode, str, str, str, dict[str, Any]]] = {
    "no heads": (INVALID, "heads", "NO_HEADS", "name the heads", {"heads": {}}),
    "layer": (INVALID, "heads[1].layer", "LAYER_OUT_OF_RANGE", "has layers 0 to 3", {"heads": {0: (), 4: ()}}),
    "head": (INVALID, "heads[0].heads[1]", "HEAD_OUT_OF_RANGE", "has heads 0 to 3", {"heads": {0: (1, 4)}}),
    "head twice": (INVALID, "heads[0].heads[1]", "DUPLICATE", "list each once", {"heads": {0: (1, 1)}}),
    "no id": (INVALID, "model_id", "MALFORMED_MODEL_ID", "use 1 to 63", {"model_id": ""}),
    "malformed id": (INVALID, "model_id", "MALFORMED_MODEL_ID", "use 1 to 63", {"model_id": "a/b"}),
    "long id": (INVALID, "model_id", "MALFORMED_MODEL_ID", "use 1 to 63", {"model_id": "a" * 64}),
    "id in use": (EXISTS, "", "MODEL_EXISTS", "another name", {"model_id": "roberta"}),
    "its own id": (EXISTS, "", "MODEL_EXISTS", "another name", {"model_id": "bert"}),
    "relative folder": (INVALID, "folder", "FOLDER_NOT_ABSOLUTE", "absolute", {"folder": "pruned"}),
    "folder beside": (INVALID, "folder", "FOLDER_NOT_ABSOLUTE", "absolute", {"folder": "../pruned"}),
    "folder of nothing": (INVALID, "folder", "FOLDER_NOT_ABSOLUTE", "absolute", {"folder": "/a\0b"}),
    "blank folder": (INVALID, "folder", "FOLDER_NOT_ABSOLUTE", "absolute", {"folder": " "}),
    "unwritable folder": (FAILED, "", "FOLDER_UNWRITABLE", "may make", {"folder": "/proc/bertscope/pruned"}),
    "name of a folder too long": (FAILED, "", "FOLDER_UNWRITABLE", "may make", {"folder": "/tmp/" + "x" * 300}),
    "unknown model": (grpc.StatusCode.NOT_FOUND, "", "MODEL_NOT_FOUND", "not loaded", {"model": "models/nobody"}),
    "shared layers": (
        grpc.StatusCode.UNIMPLEMENTED,
        "",
        "PRUNING_UNSUPPORTED",
        "use interventions",
        {"model": "models/albert"},
    ),
}


@pytest.mark.parametrize(("code", "field", "reason", "words", "fields"), BAD.values(), ids=BAD)
def test_what_can_not_be_pruned(
    pruner: Host,
    check_alive: Callable[[Host], None],
    code: grpc.StatusCode,
    field: str,
    reason: str,
    words: str,
    fields: dict[str, Any],
) -> None:
    given = {"model": "models/bert", "model_id": "pruned"} | fields
    request = request_of(given.pop("heads", {0: (0,)}), **given)
    before = names(pruner)
    with refused(code) as failures:
        pruner.ablation.PruneHeads(request, timeout=CALL_SECONDS)
    assert failures[0].info.reason == reason
    assert failures[0].fields == ([field] if field else [])
    assert words in failures[0].message
    assert names(pruner) == before
    check_alive(pruner)


def test_a_layer_twice(pruner: Host) -> None:
    heads = [common.LayerHeads(layer=1, heads=[0]), common.LayerHeads(layer=1, heads=[1])]
    with refused(INVALID) as failures:
        pruner.ablation.PruneHeads(ablation.PruneHeadsRequest(heads=heads, model_id="pruned"), timeout=CALL_SECONDS)
    assert failures[0].fields == ["heads[1].layer"]


def test_a_folder_that_holds_something_is_left_alone(pruner: Host, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    for folder in (tmp_path, tmp_path / "mine"):
        with refused(EXISTS) as failures:
            prune(pruner, "bert", {0: (0,)}, folder=str(folder))
        assert failures[0].info.reason == "FOLDER_NOT_EMPTY"
        assert str(folder) in failures[0].message
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("mine", "precious")]
    assert "models/pruned" not in names(pruner)


def test_an_id_in_use_writes_no_folder(pruner: Host, tmp_path: Path) -> None:
    with refused(EXISTS):
        prune(pruner, "bert", {0: (0,)}, "roberta", folder=str(tmp_path / "saved"))
    assert not list(tmp_path.iterdir())


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


@pytest.mark.parametrize("digests", [1, 2])
@pytest.mark.parametrize("saved", [False, True])
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


def test_a_prune_cancelled_while_its_weights_are_read_leaves_nothing_behind(
    pruner: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there, go_on, load = threading.Event(), threading.Event(), load_encoder

    def slow_load(*args: Any, **options: Any) -> TorchEncoder:
        there.set()
        assert go_on.wait(granted(60))
        return load(*args, **options)

    monkeypatch.setattr(runtimes, "load_encoder", slow_load)
    before = names(pruner)
    request = request_of({0: (1,)}, model="models/bert", model_id="pruned", folder=str(tmp_path / "saved"))
    call = pruner.ablation.PruneHeads.future(request, timeout=CALL_SECONDS)
    try:
        assert there.wait(granted(20))
        call.cancel()
        wait_until(lambda: names(pruner) == before, "it is forgotten")
    finally:
        go_on.set()
    wait_until(nothing_is_read, "the reading thread ends")
    assert not list(tmp_path.iterdir())


def test_a_prune_cancelled_while_it_warms_up_leaves_nothing_behind(pruner: Host, tmp_path: Path) -> None:
    before = names(pruner)
    with held(pruner) as gate:
        answer = pruner.cloze.FillMask.future(cloze.FillMaskRequest(texts=MASKED[:1]), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the worker is busy")
        request = request_of({0: (1,)}, model="models/bert", model_id="pruned", folder=str(tmp_path / "saved"))
        call = pruner.ablation.PruneHeads.future(request, timeout=CALL_SECONDS)
        wait_until(lambda: pruner.metric("bertscope_queue_rows", device="cpu"), "the new model's first rows wait")
        call.cancel()
        wait_until(lambda: names(pruner) == before, "it is forgotten")
        wait_until(lambda: not pruner.metric("bertscope_queue_rows", device="cpu"), "its rows are dropped")
        gate.let_through()
        assert answer.result().results
    wait_until(lambda: in_flight(pruner, "PruneHeads") == 0 and nothing_is_read(), "the call ends")
    wait_until(lambda: not list(tmp_path.iterdir()), "its folder is gone")


def test_an_original_in_use_by_a_prune_is_not_unloaded_under_it(
    pruner: Host, folders: dict[str, Path], slow_read: tuple[threading.Semaphore, threading.Semaphore]
) -> None:
    there, go_on = slow_read
    go_on.release()
    list(
        pruner.models.LoadModel(model.LoadModelRequest(model_id="original", source=str(folders["bert"])), timeout=CALL_SECONDS)
    )
    assert there.acquire(timeout=granted(20))
    call = pruner.ablation.PruneHeads.future(
        request_of({0: (1,)}, model="models/original", model_id="pruned"), timeout=granted(60)
    )
    assert there.acquire(timeout=granted(20))
    unloading = pruner.models.UnloadModel.future(model.UnloadModelRequest(name="models/original"), timeout=granted(60))
    wait_until(lambda: get(pruner, "models/original").state == model.Model.STATE_UNLOADING, "it is being unloaded")
    assert not unloading.done()
    go_on.release(10)
    assert call.result().model.name == "models/pruned"
    unloading.result()
    assert "models/original" not in names(pruner)
