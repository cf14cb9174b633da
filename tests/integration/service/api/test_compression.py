"""CompressModel: progress, then a new model beside the original, saved or not."""

import errno
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import model_pb2 as model
from bertscope_service.compression.working_copy import WorkingCopy
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from tests.support.calls import call, get, held_digests, models_as_before, refusal
from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, read_maps
from tests.support.patience import wait_until
from tests.support.sweeps import MASKED, masked_lm, matrix, rank, text_input
from tests.support.tiny import SENTENCES, write_checkpoint

EXISTS = grpc.StatusCode.ALREADY_EXISTS
FAILED, UNSUPPORTED = grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED
TEXTS = ("The cat sat.", "Paris is the capital of France.", "The nurse told the doctor that she was late.")
Step = dict[str, Any]
LEAST_IMPORTANT: Step = {"heads": {"share": 0.25, "texts": TEXTS}}


@pytest.fixture(scope="module")
def server(loop: LoopThread, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    albert = write_checkpoint("albert", tmp_path_factory.mktemp("more") / "albert")
    with launched(loop, model=[f"{name}={folder}" for name, folder in (checkpoints | {"albert": albert}).items()]) as running:
        yield running


@pytest.fixture
def press(server: Host) -> Iterator[Host]:
    with models_as_before(server):
        yield server


def layers(*kept: int) -> Step:
    return {"layers": {"layers": kept}}


def request(*steps: Step, **fields: Any) -> dict[str, Any]:
    return {"model": "models/bert", "model_id": "small", "steps": steps} | fields


def compress(host: Host, *steps: Step, **fields: Any) -> model.Model:
    """The new model; what came before it must be progress."""
    *before, last = call(host, "CompressModel", **request(*steps, **fields))
    assert {response.WhichOneof("event") for response in before} <= {"progress"}
    assert last.WhichOneof("event") == "model"
    return last.model


def answers(host: Host, name: str, texts: Sequence[str] = MASKED) -> list[list[tuple[str, float]]]:
    """All pieces of every mask, the likeliest first, with their probabilities."""
    size = get(host, name).vocabulary_size
    found = call(host, "FillMask", model=name, texts=texts, top_k=size).results
    return [[(one.token, one.probability) for one in mask.predictions] for text in found for mask in text.masks]


def maps(host: Host, name: str) -> NDArray[np.float32]:
    (found,) = read_maps(call(host, "ExtractAttention", model=name, inputs=[text_input("The cat sat.")]))
    return found.values


@pytest.mark.slow
def test_a_saved_model_reloads_after_a_restart(press: Host, launch: Callable[..., Host], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "small"
    head, units = {"heads": [{"layer": 1, "heads": [2]}]}, {"share": 0.25}
    steps = (layers(0, 3), {"heads": head}, {"feed_forward": units}, {"vocabulary": {"texts": [*SENTENCES, "paris"]}})
    *progress, last = call(press, "CompressModel", **request(*steps, folder=str(folder)))
    small, whole = last.model, get(press, "models/bert")
    assert small == get(press, "models/small")
    assert (small.layers, small.heads, small.source) == (2, 4, str(folder))
    assert [(layer.layer, list(layer.heads)) for layer in small.pruned_heads] == [(1, [2])]
    for field in ("vocabulary_size", "parameters", "weight_bytes"):
        assert getattr(small, field) < getattr(whole, field)
    assert [step.step for step in small.compression] == ["layers", "heads", "feed_forward", "vocabulary"]
    assert small.compression[0].description == "kept layers 0, 3 of 4"
    assert dict(small.compression[2].numbers) == {"units_before": 48, "units_after": 36}
    assert not whole.compression
    # What is over before it was told may be left out; nothing is told twice.
    done = [(response.progress.done_steps, response.progress.detail) for response in progress]
    assert done == sorted(done, key=lambda one: one[0])
    assert len({*done}) == len(done)
    assert {*done} <= {(0, "reading"), (0, "layers"), (1, "heads"), (2, "feed_forward"), (3, "vocabulary"), (4, "loading")}
    assert done[-1] == (4, "loading")
    assert {response.progress.total_steps for response in progress} == {5}
    other = launch(model=[f"again={folder}"])
    again = get(other, "models/again")
    for field in ("weights_digest", "parameters", "compression", "pruned_heads"):
        assert getattr(again, field) == getattr(small, field)
    for found, expected in zip(answers(other, "models/again"), answers(press, "models/small"), strict=True):
        assert [piece for piece, _ in found] == [piece for piece, _ in expected]
        assert_allclose([share for _, share in found], [share for _, share in expected], atol=1e-6)
    assert_allclose(maps(other, "models/again"), maps(press, "models/small"), atol=1e-6)
    assert not maps(press, "models/small")[1, 2].any()


@pytest.mark.slow
def test_a_share_of_heads_is_the_least_important_of_those_left(press: Host) -> None:
    def order(name: str) -> list[tuple[int, int]]:
        """All heads, the least important first."""
        importance = matrix(rank(press, model=name, objective=masked_lm(TEXTS, mask_share=0.15)).importance)
        return sorted(np.ndindex(4, 4), key=lambda place: importance[place])

    def removed(found: model.Model) -> set[tuple[int, int]]:
        return {(layer.layer, head) for layer in found.pruned_heads for head in layer.heads}

    whole = order("models/bert")
    small = removed(compress(press, LEAST_IMPORTANT))
    assert small == {*whole[:4]}
    cut = compress(press, layers(0, 2), LEAST_IMPORTANT, model_id="cut")
    left = [(layer // 2, head) for layer, head in whole if layer in (0, 2)]
    assert removed(cut) == {*left[:2]}
    smaller = compress(press, LEAST_IMPORTANT, model="models/small", model_id="smaller")
    there = [place for place in order("models/small") if place not in small]
    assert removed(smaller) == {*small, *there[:3]}


@pytest.mark.parametrize(
    ("step", "reason"),
    [(layers(0), "LAYERS_UNSUPPORTED"), ({"heads": {"heads": [{"layer": 0, "heads": [0]}]}}, "PRUNING_UNSUPPORTED")],
)
def test_layers_that_share_their_weights_are_kept(press: Host, step: Step, reason: str) -> None:
    before = press.names()
    failure = refusal(press, "CompressModel", code=UNSUPPORTED, **request(step, model="models/albert"))
    assert failure.info.reason == reason
    assert press.names() == before


def test_a_folder_that_takes_no_model_is_found_before_heads_are_ranked(press: Host, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    batches = press.metric("bertscope_batch_rows_count", device="cpu")
    for folder, code, reason in (
        (tmp_path, EXISTS, "FOLDER_NOT_EMPTY"),
        (mine, EXISTS, "FOLDER_NOT_EMPTY"),
        (mine / "small", FAILED, "FOLDER_UNWRITABLE"),
    ):
        failure = refusal(press, "CompressModel", code=code, **request(LEAST_IMPORTANT, folder=str(folder)))
        assert failure.info.reason == reason
        assert str(folder) in failure.message
    assert press.metric("bertscope_batch_rows_count", device="cpu") == batches
    assert [(path, path.read_text()) for path in tmp_path.iterdir()] == [(mine, "precious")]


def test_a_full_disk(press: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(WorkingCopy, "save", fail)
    before = press.names()
    failure = refusal(press, "CompressModel", code=FAILED, **request(layers(0), folder=str(tmp_path / "small")))
    assert failure.info.reason == "DISK_FULL"
    assert not list(tmp_path.iterdir())
    assert press.names() == before


@pytest.mark.parametrize(("digests", "saved"), [(1, False), (2, True)])
def test_a_cancelled_call_leaves_nothing_behind(
    press: Host,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    digests: int,
    saved: bool,
) -> None:
    """While the original is read, and while the result is."""
    temporary = tmp_path_factory.mktemp("temporary")  # of this test alone: others run beside it
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = press.names()
    asked = model.CompressModelRequest(**request(layers(0), folder=str(tmp_path / "small") if saved else ""))
    with held_digests() as gate:
        running = press.models.CompressModel(asked, timeout=CALL_SECONDS)
        gate.let_through(digests - 1)
        wait_until(lambda: gate.arrived == digests, "weights are read")
        assert get(press, "models/small").state == model.Model.STATE_LOADING
        running.cancel()
        wait_until(lambda: press.names() == before, "it is forgotten")
    wait_until(lambda: press.metric("bertscope_requests_in_flight", method="CompressModel") == 0, "the call ends")
    assert not list(tmp_path.iterdir())
    assert not list(temporary.iterdir())
