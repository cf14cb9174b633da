"""PruneHeads: a model without heads answers as the whole one does with those heads at zero."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import model_pb2 as model
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from tests.support.calls import call, get, load, models_as_before, refusal
from tests.support.harness import Host, read_maps
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
SEVERAL: Heads = {0: (3, 1), 2: (0,)}
LAYER: Heads = {2: ALL}
ALL_BUT_ONE: Heads = {0: ALL, 1: ALL, 2: (0, 1, 3), 3: ALL}
MOST: Heads = {1: (0, 2), 2: ALL}


@pytest.fixture(scope="module")
def folders(
    checkpoints: dict[str, Path], sorters: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    modern = write_checkpoint("modernbert", tmp_path_factory.mktemp("more") / "modernbert")
    return checkpoints | sorters | {"modernbert": modern}


@pytest.fixture
def pruner(zoo: Host) -> Iterator[Host]:
    with models_as_before(zoo):
        yield zoo


def asked(name: str, heads: Heads, **fields: Any) -> dict[str, Any]:
    layers = [{"layer": layer, "heads": numbers} for layer, numbers in heads.items()]
    return {"model": f"models/{name}", "model_id": "pruned", "heads": layers} | fields


def prune(host: Host, name: str, heads: Heads, **fields: Any) -> Any:
    return call(host, "PruneHeads", **asked(name, heads, **fields)).model


def zeros(heads: Heads) -> Changes:
    return {(layer, head): (ZERO, 1.0) for layer, numbers in heads.items() for head in numbers}


def answers(host: Host, name: str, folder: Path, changes: Changes) -> NDArray[np.float64]:
    """Log probabilities of all pieces at all masks, or of all labels."""
    by = Measurer(host, f"models/{name}", folder)
    if get(host, f"models/{name}").labels:
        return by.label_logs([text_input(text, pair) for text, pair, _ in LABELLED], changes)
    return np.concatenate(by.logs(MASKED, changes))


def maps_of(host: Host, name: str, changes: Changes) -> list[NDArray[np.float32]]:
    inputs = [
        text_input("The cat sat."),
        text_input("The nurse told the doctor that her patient had been waiting.", "The man."),
    ]
    replies = call(host, "ExtractAttention", model=f"models/{name}", inputs=inputs, interventions=interventions(changes))
    return [maps.values for maps in read_maps(replies)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("bert", SEVERAL),
        ("bert", LAYER),
        ("bert", ALL_BUT_ONE),
        ("sorter", SEVERAL),
        ("distilled", {layer: heads for layer, heads in ALL_BUT_ONE.items() if layer < 3}),
        ("modernbert", ALL_BUT_ONE),
    ],
)
def test_a_pruned_model_answers_as_the_whole_one_with_heads_at_zero(
    pruner: Host, folders: dict[str, Path], name: str, heads: Heads
) -> None:
    whole = get(pruner, f"models/{name}")
    pruned = prune(pruner, name, heads)
    assert pruned == get(pruner, "models/pruned")
    assert pruned.state == model.Model.STATE_READY
    assert pruned.source == f"models/{name}, pruned"
    assert [(layer.layer, tuple(layer.heads)) for layer in pruned.pruned_heads] == [
        (layer, tuple(sorted(heads[layer]))) for layer in sorted(heads)
    ]
    for field in ("layers", "heads", "hidden_size", "labels", "capabilities", "precision"):
        assert getattr(pruned, field) == getattr(whole, field)
    assert pruned.parameters < whole.parameters
    assert pruned.weight_bytes < whole.weight_bytes
    assert pruned.weights_digest != whole.weights_digest
    expected = answers(pruner, name, folders[name], zeros(heads))
    assert_allclose(answers(pruner, "pruned", folders[name], {}), expected, atol=1e-5)
    assert abs(answers(pruner, name, folders[name], {}) - expected).max() > 1e-3
    for found, gated in zip(maps_of(pruner, "pruned", {}), maps_of(pruner, name, zeros(heads)), strict=True):
        for layer, head in np.ndindex(found.shape[:2]):
            if (layer, head) in zeros(heads):
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

    def under(changes: Changes) -> NDArray[np.float64]:
        return answers(pruner, "pruned", folders["bert"], changes)

    assert_allclose(under(dict.fromkeys(zeros(heads), (mode, factor))), under({}), atol=1e-5)
    # One that is gone beside one that is there.
    there: Changes = {(1, 1): (SCALE, 0.5)}
    assert_allclose(under({(1, 0): (mode, factor), **there}), under(there), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["modernbert", "sorter"])
def test_a_saved_model_can_be_loaded_again(pruner: Host, folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    folder = tmp_path / "new" / "saved"
    pruned = prune(pruner, name, {0: (2,), 3: ALL}, folder=str(folder))
    assert pruned.source == str(folder)
    again = load(pruner, model_id="again", source=str(folder))
    for field in ("pruned_heads", "weights_digest", "parameters", "weight_bytes"):
        assert getattr(again, field) == getattr(pruned, field)
    assert again.weight_bytes == sum(p.stat().st_size for p in folder.glob("*.safetensors"))
    for change in ({}, {(1, 1): (ZERO, 1.0)}):
        expected = answers(pruner, "pruned", folders[name], change)
        assert_allclose(answers(pruner, "again", folders[name], change), expected, atol=1e-6)
    assert {path.name for path in folder.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert [path.name for path in folder.parent.iterdir()] == ["saved"]


@pytest.mark.slow
def test_sweeping_a_pruned_model(pruner: Host, folders: dict[str, Path]) -> None:
    prune(pruner, "bert", MOST)
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
        expected = whole.scores(objective, changed(zeros(MOST), ((layer, (head,)),), ZERO))
        assert_allclose([metric.score for metric in effect.metrics], expected, atol=1e-5)
        assert (abs(effect.metrics[2].difference) > 1e-5) == ((layer, head) not in zeros(MOST))
    assert [metric.difference for metric in named.effects[1].metrics] == pytest.approx([0, 0, 0], abs=1e-5)
    # Heads that were pruned before are not counted: the ten that were left are all there was.
    curve = sweep(pruner, model="models/pruned", objective=divergence(), greedy=ablation.Greedy(step=10))
    assert [point.share_removed for point in curve.points] == [0, 1]
    sets = [head_set(((1, ALL),)), head_set(((2, ALL), (3, (0, 1, 2))))]
    half = sweep(pruner, model="models/pruned", objective=divergence(), sets=sets, greedy=ablation.Greedy(step=2))
    assert half.points[-1].share_removed == pytest.approx(5 / 10)


@pytest.mark.slow
def test_ranking_a_pruned_model(pruner: Host) -> None:
    prune(pruner, "bert", MOST)
    objective = masked_lm(["The cat sat.", "The unplayable song."], mask_share=1.0)
    pruned = rank(pruner, model="models/pruned", objective=objective)
    gradient, importance = matrix(pruned.gradient), matrix(pruned.importance)
    gated = rank(pruner, model="models/bert", objective=objective, interventions=interventions(zeros(MOST)))
    there = np.array([[(layer, head) not in zeros(MOST) for head in range(4)] for layer in range(4)])
    assert_allclose(gradient, np.where(there, matrix(gated.gradient), 0), atol=1e-5)
    assert ((gradient > 0) == there).all()
    assert not importance[~there].any()
    assert_allclose(np.sqrt((importance**2).sum(axis=1)), [1, 1, 0, 1], atol=1e-5)


def test_weights_that_changed_since_they_were_loaded(pruner: Host, folders: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["bert"], tmp_path / "copy"))
    load(pruner, model_id="copy", source=str(copy))
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-5] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    request = asked("copy", {0: (0,)}, folder=str(tmp_path / "saved"))
    failure = refusal(pruner, "PruneHeads", code=grpc.StatusCode.FAILED_PRECONDITION, **request)
    assert failure.info.reason == "SOURCE_CHANGED"
    assert "load them again" in failure.message
    shutil.rmtree(copy)
    refusal(pruner, "PruneHeads", code=grpc.StatusCode.FAILED_PRECONDITION, **request)
    assert not (tmp_path / "saved").exists()
