"""CompressModel: progress, then a new model beside the original, saved or not."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import compression_pb2 as compression
from bertscope.v1 import model_pb2 as model
from bertscope_service.checkpoints.sources import Source
from bertscope_service.compression.working_copy import WorkingCopy
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, read_maps, refused
from tests.support.patience import granted, wait_until
from tests.support.sweeps import MASKED, masked_lm, matrix, rank, text_input
from tests.support.tiny import SENTENCES, write_checkpoint

EXISTS = grpc.StatusCode.ALREADY_EXISTS
FAILED, UNSUPPORTED = grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED
Step = compression.CompressionStep
TEXTS = ("The cat sat.", "Paris is the capital of France.", "The nurse told the doctor that she was late.")


@pytest.fixture(scope="module")
def press(loop: LoopThread, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    albert = write_checkpoint("albert", tmp_path_factory.mktemp("more") / "albert")
    with launched(loop, model=[f"{name}={folder}" for name, folder in (checkpoints | {"albert": albert}).items()]) as running:
        yield running


@pytest.fixture(autouse=True)
def unchanged(press: Host) -> Iterator[None]:
    """Whatever a test makes is unloaded afterwards, and the others are as before."""
    before = list(press.models.ListModels(model.ListModelsRequest()).models)
    yield
    after = list(press.models.ListModels(model.ListModelsRequest()).models)
    for entry in after[len(before) :]:
        press.models.UnloadModel(model.UnloadModelRequest(name=entry.name), timeout=CALL_SECONDS)
    assert after[: len(before)] == before


def layers(*kept: int) -> Step:
    return Step(layers=compression.LayerSelection(layers=kept))


def units(share: float, **fields: Any) -> Step:
    return Step(feed_forward=compression.FeedForwardRemoval(share=share, **fields))


def vocabulary(*texts: str) -> Step:
    return Step(vocabulary=compression.VocabularyReduction(texts=texts))


def heads(**fields: Any) -> Step:
    return Step(heads=compression.HeadRemoval(**fields))


BF16 = Step(half=compression.HalfPrecision(precision=common.PRECISION_BFLOAT16))


def responses(host: Host, *steps: Step, **fields: Any) -> list[model.CompressModelResponse]:
    given = {"model": "models/bert", "model_id": "small", "steps": steps} | fields
    return list(host.models.CompressModel(model.CompressModelRequest(**given), timeout=CALL_SECONDS))


def compress(host: Host, *steps: Step, **fields: Any) -> model.Model:
    """The new model; what came before it must be progress."""
    *before, last = responses(host, *steps, **fields)
    assert {response.WhichOneof("event") for response in before} <= {"progress"}
    assert last.WhichOneof("event") == "model"
    return last.model


def get(host: Host, name: str) -> model.Model:
    return host.models.GetModel(model.GetModelRequest(name=name), timeout=CALL_SECONDS).model


def names(host: Host) -> list[str]:
    return [entry.name for entry in host.models.ListModels(model.ListModelsRequest()).models]


def answers(host: Host, name: str, texts: Sequence[str] = MASKED) -> list[list[tuple[str, float]]]:
    """The likeliest pieces of every mask, with their probabilities."""
    request = cloze.FillMaskRequest(model=name, texts=texts, top_k=50)
    found = host.cloze.FillMask(request, timeout=CALL_SECONDS).results
    return [[(one.token, one.probability) for one in mask.predictions] for text in found for mask in text.masks]


def maps(host: Host, name: str) -> NDArray[np.float32]:
    request = attention.ExtractAttentionRequest(model=name, inputs=[text_input("The cat sat.")])
    (found,) = read_maps(host.attention.ExtractAttention(request, timeout=CALL_SECONDS))
    return found.values


@pytest.mark.slow
def test_a_saved_model_reloads_after_a_restart(press: Host, launch: Callable[..., Host], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "small"
    steps = (layers(0, 3), heads(heads=[common.LayerHeads(layer=1, heads=[2])]), units(0.25), vocabulary(*SENTENCES, "paris"))
    *progress, last = responses(press, *steps, folder=str(folder))
    small, whole = last.model, get(press, "models/bert")
    assert small == get(press, "models/small")
    assert (small.layers, small.heads, small.source) == (2, 4, str(folder))
    assert [(layer.layer, list(layer.heads)) for layer in small.pruned_heads] == [(1, [2])]
    assert small.vocabulary_size < whole.vocabulary_size
    assert small.parameters < whole.parameters
    assert small.weight_bytes < whole.weight_bytes
    assert [step.step for step in small.compression] == ["layers", "heads", "feed_forward", "vocabulary"]
    assert small.compression[0].description == "kept layers 0, 3 of 4"
    assert dict(small.compression[2].numbers) == {"units_before": 48, "units_after": 36}
    assert not whole.compression
    done = [(response.progress.done_steps, response.progress.detail) for response in progress]
    assert done == sorted(done, key=lambda one: one[0])
    assert done[-1] == (4, "loading")
    assert {response.progress.total_steps for response in progress} == {5}
    other = launch(model=[f"again={folder}"])
    again = get(other, "models/again")
    assert (again.weights_digest, again.parameters) == (small.weights_digest, small.parameters)
    assert (again.compression, again.pruned_heads) == (small.compression, small.pruned_heads)
    for found, expected in zip(answers(other, "models/again"), answers(press, "models/small"), strict=True):
        assert [piece for piece, _ in found] == [piece for piece, _ in expected]
        assert_allclose([share for _, share in found], [share for _, share in expected], atol=1e-6)
    assert_allclose(maps(other, "models/again"), maps(press, "models/small"), atol=1e-6)
    assert not maps(press, "models/small")[1, 2].any()


@pytest.mark.slow
def test_progress_says_what_is_done(press: Host) -> None:
    """What is over before it was told may be left out; nothing is told twice."""
    found = [
        (response.progress.done_steps, response.progress.detail)
        for response in responses(press, layers(0, 1), BF16)
        if response.HasField("progress")
    ]
    assert len(set(found)) == len(found)
    assert set(found) <= {(0, "reading"), (0, "layers"), (1, "half"), (2, "loading")}


@pytest.mark.slow
def test_fill_mask_ranks_the_pieces_that_are_left_as_before(press: Host) -> None:
    compress(press, vocabulary(*SENTENCES, *(text.replace("[MASK]", "the") for text in MASKED)))
    size = get(press, "models/small").vocabulary_size
    request = cloze.FillMaskRequest(texts=MASKED, top_k=size)
    request.model = "models/small"
    after = press.cloze.FillMask(request, timeout=CALL_SECONDS).results
    request.model, request.top_k = "models/bert", get(press, "models/bert").vocabulary_size
    before = press.cloze.FillMask(request, timeout=CALL_SECONDS).results
    for now, then in zip(after, before, strict=True):
        for mask, whole in zip(now.masks, then.masks, strict=True):
            left = {one.token for one in mask.predictions}
            assert [one.token for one in mask.predictions] == [one.token for one in whole.predictions if one.token in left]
            assert len(left) < len(whole.predictions)


@pytest.mark.slow
def test_a_share_of_heads_is_the_least_important_of_those_left(press: Host) -> None:
    objective = masked_lm(TEXTS, mask_share=0.15)
    importance = matrix(rank(press, model="models/bert", objective=objective).importance)
    small = compress(press, heads(share=0.25, texts=TEXTS), model_id="small")
    order = sorted(np.ndindex(4, 4), key=lambda place: importance[place])
    removed = sorted((layer.layer, head) for layer in small.pruned_heads for head in layer.heads)
    assert removed == sorted(order[:4])
    cut = compress(press, layers(0, 2), heads(share=0.25, texts=TEXTS), model_id="cut")
    left = [place for place in order if place[0] in (0, 2)]
    removed = sorted((layer.layer * 2, head) for layer in cut.pruned_heads for head in layer.heads)
    assert removed == sorted(left[:2])
    again = matrix(rank(press, model="models/small", objective=objective).importance)
    smaller = compress(press, heads(share=0.25, texts=TEXTS), model="models/small", model_id="smaller")
    gone = {(layer.layer, head) for layer in small.pruned_heads for head in layer.heads}
    there = sorted((place for place in np.ndindex(4, 4) if place not in gone), key=lambda place: again[place])
    removed = sorted((layer.layer, head) for layer in smaller.pruned_heads for head in layer.heads)
    assert removed == sorted({*gone, *there[:3]})


@pytest.mark.slow
def test_importance_of_units(press: Host) -> None:
    found = compress(press, units(0.5, criterion=compression.FeedForwardRemoval.CRITERION_IMPORTANCE, texts=TEXTS))
    other = compress(press, units(0.5), model_id="other")
    assert found.parameters == other.parameters
    assert found.weights_digest != other.weights_digest


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (layers(0), "LAYERS_UNSUPPORTED"),
        (heads(heads=[common.LayerHeads(layer=0, heads=[0])]), "PRUNING_UNSUPPORTED"),
    ],
)
def test_layers_that_share_their_weights_are_kept(press: Host, step: Step, reason: str) -> None:
    before = names(press)
    with refused(UNSUPPORTED) as failures:
        responses(press, step, model="models/albert")
    assert failures[0].info.reason == reason
    assert names(press) == before


@pytest.mark.parametrize("holds_something", [True, False])
def test_a_folder_that_takes_no_model_is_found_before_heads_are_ranked(
    press: Host, tmp_path: Path, holds_something: bool
) -> None:
    (tmp_path / "mine").write_text("precious")
    folder = tmp_path if holds_something else tmp_path / "mine" / "small"
    batches = press.metric("bertscope_batch_rows_count", device="cpu")
    with refused(EXISTS if holds_something else FAILED) as failures:
        responses(press, heads(share=0.5, texts=TEXTS), folder=str(folder))
    assert failures[0].info.reason == ("FOLDER_NOT_EMPTY" if holds_something else "FOLDER_UNWRITABLE")
    assert press.metric("bertscope_batch_rows_count", device="cpu") == batches
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_full_disk(press: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(WorkingCopy, "save", fail)
    before = names(press)
    with refused(FAILED) as failures:
        responses(press, layers(0), folder=str(tmp_path / "small"))
    assert failures[0].info.reason == "DISK_FULL"
    assert not list(tmp_path.iterdir())
    assert names(press) == before


@pytest.mark.parametrize("digests", [1, 2])
def test_a_cancelled_call_leaves_nothing_behind(
    press: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, digests: int
) -> None:
    """While the original is read, and while the result is."""
    there, go_on, digest = threading.Semaphore(0), threading.Semaphore(0), Source.digest

    def slow_digest(source: Source, report: Any) -> str:
        there.release()
        assert go_on.acquire(timeout=granted(60))
        return digest(source, report)

    monkeypatch.setattr(Source, "digest", slow_digest)
    before = names(press)
    request = model.CompressModelRequest(model_id="small", steps=[layers(0)], folder=str(tmp_path / "small"))
    call = press.models.CompressModel(request, timeout=CALL_SECONDS)
    for number in range(digests):
        assert there.acquire(timeout=granted(20))
        if number < digests - 1:
            go_on.release()
    assert get(press, "models/small").state == model.Model.STATE_LOADING
    call.cancel()
    wait_until(lambda: names(press) == before, "it is forgotten")
    go_on.release(10)
    wait_until(lambda: not any(one.name.startswith("bertscope-load") for one in threading.enumerate()), "the thread ends")
    wait_until(lambda: press.metric("bertscope_requests_in_flight", method="CompressModel") == 0, "the call ends")
    assert not list(tmp_path.iterdir())
