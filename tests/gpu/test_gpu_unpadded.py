"""On a GPU: batches run without padding, in number formats that have a kernel for that."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.observers.masks import LogitObserver, MaskObserver, MaskScores
from bertscope_service.encoders.torch import graph_rooms, layer_graphs, unpadded_steps
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.graph_rooms import ROOMS as ALL_ROOMS
from bertscope_service.encoders.torch.graph_rooms import RoomSize
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.on_gpu import DEVICE
from tests.support.pretended_gpu import kernels
from tests.support.pretended_gpu.memory import GPU
from tests.support.pretended_gpu.recording import Seen, watching
from tests.support.questions_of_rows import QUESTIONS, answers, assert_same, gates, offered, sequences
from tests.support.tiny import write_checkpoint


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_answers_without_padding(architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last digits, which half precision hides: the pretended kernel takes float32, too."""
    monkeypatch.setattr(kernels, "DTYPES", [torch.float32])
    write_checkpoint(architecture, tmp_path)
    on_gpu, on_cpu = (
        load_encoder(tmp_path, architecture, device=device, precision="fp32", pack=False)
        for device in (DEVICE, torch.device("cpu"))
    )
    if not on_gpu.capabilities.unpadded:
        pytest.skip("its layers read padded rows")
    on_gpu._unpadded_layers.varlen = True
    for kind in (None, "zero", "uniform", "scale", "mean"):
        for question in QUESTIONS if kind is None else ["FillMask", "hidden states", "RankHeads"]:
            if question not in offered(on_cpu):
                continue
            found, expected = (
                answers(
                    encoder,
                    question,
                    sequences(encoder),
                    lambda row, encoder=encoder, kind=kind: gates(encoder, kind) if kind and row % 2 else None,
                )
                for encoder in (on_gpu, on_cpu)
            )
            assert_same(found, expected)


def assert_same_entries(found: Sequence[MaskScores], expected: Sequence[MaskScores], share: float = 1e-4) -> None:
    """Compares the likeliest entries; in half precision many are equally likely, in any order."""
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.top_ids.shape == theirs.top_ids.shape
        for ids, logs, other_ids, other_logs in zip(ours.top_ids, ours.top_logs, theirs.top_ids, theirs.top_logs, strict=True):
            bound = share * float(np.abs(other_logs).max(initial=0))
            np.testing.assert_allclose(logs, other_logs, rtol=0, atol=bound)
            known = dict(zip(other_ids.tolist(), other_logs.tolist(), strict=True))
            # One that is not among the others' is as likely as the last of them.
            assert all(abs(known.get(one, other_logs[-1]) - log) <= bound for one, log in zip(ids.tolist(), logs, strict=True))


def both(architecture: str, folder: Path, **options: Any) -> tuple[TorchEncoder, TorchEncoder]:
    """A model without graphs, and the same with them."""
    write_checkpoint(architecture, folder, **options)
    plain, captured = (load_encoder(folder, architecture, device=DEVICE, precision="bf16", pack=False) for _ in range(2))
    captured.architecture.model.requires_grad_()  # as models that nobody froze: a graph records no gradients
    captured.capture()
    return plain, captured


def graphs_of(seen: Seen) -> int:
    return sum(count for (what, _), count in seen.launches.items() if what == "graph")


@pytest.mark.parametrize("architecture", ["bert", "modernbert", "roberta", "esm"])
def test_answers_by_graphs(architecture: str, tmp_path: Path) -> None:
    """Batches of several sizes, one after the other on the same memory, give what single launches give."""
    plain, captured = both(architecture, tmp_path)
    assert len(captured.graph_sizes) == len(graph_rooms.rooms_for(captured.shape.max_tokens)), "the log says why"
    for rows, length in ((1, 24), (8, 24), (3, 9), (40, 9), (8, 24)):
        batch = sequences(plain, rows, length)
        batch[0].ids[1] = plain.architecture.model.config.pad_token_id  # as a token of the text
        assert_same_entries(answers(captured, "FillMask", batch), answers(plain, "FillMask", batch))
        for question in ("FillMask candidates", "logits of all tokens", "hidden states"):
            assert_same(answers(captured, question, batch), answers(plain, question, batch))


def test_a_model_without_graphs(tmp_path: Path) -> None:
    _, captured = both("deberta-v2", tmp_path)
    assert not captured.graph_sizes, "its layers read padded rows"


@pytest.mark.usefixtures("pretended")
def test_a_batch_of_masks_is_six_calls(tmp_path: Path) -> None:
    """One mask a row: a copy to the device, two graphs, a copy back, an event, and the wait for it. Other questions take a
    graph for all layers but the last."""
    plain, captured = both("bert", tmp_path, settings={"num_hidden_layers": 12})
    batch = sequences(plain, 8, 24)
    with watching() as seen:
        answers(captured, "FillMask", batch)
    assert (graphs_of(seen), seen.launches.total()) == (2, 2)
    assert (seen.to_device.total(), seen.to_host.total(), seen.events.total(), seen.waits.total()) == (1, 1, 1, 0)
    assert {what for what, _ in (*seen.to_device, *seen.to_host)} == {"pinned", "non-blocking"}
    with watching() as before:
        answers(plain, "FillMask candidates", batch)
    with watching() as after:
        answers(captured, "FillMask candidates", batch)
    assert graphs_of(after) == 1
    assert before.launches.total() - after.launches.total() >= 11 * 12
    assert (after.to_device.total(), after.to_host.total(), after.waits.total()) == (2, 1, 0)


@pytest.mark.usefixtures("pretended")
def test_batches_that_graphs_have_no_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows, longer ones, and changed ones run without."""
    monkeypatch.setattr(graph_rooms, "ROOMS", (RoomSize(320, 8, 20),))
    plain, captured = both("bert", tmp_path)
    for rows, length, kind, graphs in ((8, 20, None, 2), (9, 20, None, 0), (3, 21, None, 0), (8, 20, "zero", 0)):
        batch = sequences(plain, rows, length)
        edits = [gates(plain, kind) if kind and row % 2 else None for row in range(rows)]
        with watching() as seen:
            found = answers(captured, "FillMask", batch, edits.__getitem__)
        assert_same_entries(found, answers(plain, "FillMask", batch, edits.__getitem__))
        assert graphs_of(seen) == graphs


@pytest.mark.usefixtures("pretended")
def test_what_a_graph_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that ask for few and for many entries share a batch, rows of one and of several masks, too; more masks than there is
    room for, more entries than a graph finds, and other questions at a mask run the head without."""
    monkeypatch.setattr(unpadded_steps, "MOST_ENTRIES", 10)
    monkeypatch.setattr(unpadded_steps, "SCORES_SHARE", 1 << 16)  # one row at a time
    monkeypatch.setattr(layer_graphs, "MOST_ENTRIES", 10)
    plain, captured = both("bert", tmp_path)
    batch = sequences(plain, 5, 9)

    one, several, many = [(row % 3,) for row in range(5)], [(0,), (1, 2), (1,), (0, 3, 5), (2,)], [(0,), *[(1, 2) * 10] * 4]
    for kind, places, top_k, graphs in (
        (MaskObserver, one, (0, 1, 10, 3, 0), 2),
        (MaskObserver, several, (3, 4, 5, 4, 3), 2),
        (MaskObserver, many, (3,) * 5, 1),
        (MaskObserver, one, (11,) * 5, 1),
        (LogitObserver, one, (3,) * 5, 1),
    ):
        observers = [
            kind(positions, count, np.zeros((len(positions), 0), np.int64))
            for positions, count in zip(places, top_k, strict=True)
        ]
        made = iter(observers * 2)
        monkeypatch.setitem(QUESTIONS, "made", lambda *_, made=made: next(made))
        with watching() as seen:
            found = answers(captured, "made", batch)
        assert graphs_of(seen) == graphs
        assert [each.top_ids.shape for each in found] == [(len(row), count) for row, count in zip(places, top_k, strict=True)]
        assert_same_entries(found, answers(plain, "made", batch))


def test_the_room_of_a_graph_fits_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """128 texts of 128 tokens start a sixteenth of the blocks of attention that 512 rows of 512 tokens would."""
    monkeypatch.setattr(graph_rooms, "ROOMS", ALL_ROOMS)
    sizes = graph_rooms.rooms_for(512)
    assert len(sizes) == 26
    assert all(size.longest <= 512 and size.rows >= 16 for size in sizes)
    # The longest row of a large room is the model's, and no room is twice there.
    assert {size.longest for size in graph_rooms.rooms_for(100)} == {64, 100}
    assert len(set(graph_rooms.rooms_for(8192))) == len(graph_rooms.rooms_for(8192)) == 31

    def taken(rows: int, length: int) -> tuple[int, int, int]:
        return next(size for size in sizes if size.holds(RoomSize.of((length,) * rows)))

    assert taken(128, 128) == (16_384, 512, 128)
    assert taken(32, 512) == (16_384, 512, 512)
    assert taken(1600, 10) == (16_384, 2048, 128)
    assert taken(1, 10) == (64, 16, 64)


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("mistake", ["memory", "item", "head"])
def test_layers_run_without_graphs_that_fail(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No memory for graphs, or a layer or head that waits for the device: answers are the same, and the log says why."""
    write_checkpoint("bert", tmp_path)
    encoder = load_encoder(tmp_path, "bert", device=DEVICE, precision="bf16", pack=False)
    batch = sequences(encoder, 8, 24)
    expected = answers(encoder, "FillMask", batch)
    if mistake == "memory":
        with GPU.failing(torch.OutOfMemoryError("CUDA out of memory"), after=30):
            encoder.capture()
    else:
        name = "run_layer" if mistake == "item" else "predict"
        run = getattr(encoder.architecture, name)

        def waiting(*arguments: Any) -> torch.Tensor:
            found: torch.Tensor = run(*arguments)
            found.sum().item()
            return found

        monkeypatch.setattr(encoder.architecture, name, waiting)
        encoder.capture()
    assert bool(encoder.graph_sizes) == (mistake == "head")
    what = "predictions at masks" if mistake == "head" else "layers"
    assert f"{what} run without CUDA graphs on cuda:0" in caplog.text
    assert_same(answers(encoder, "FillMask", batch), expected)
