"""On a GPU: batches run without padding, in number formats that have a kernel for that."""

from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.encoders.torch import graph_rooms
from bertscope_service.encoders.torch.graph_rooms import ROOMS as ALL_ROOMS
from bertscope_service.encoders.torch.graph_rooms import Room, RoomSize
from bertscope_service.encoders.torch.loading import load_encoder

from tests.support.on_gpu import DEVICE
from tests.support.pretended_gpu import kernels
from tests.support.pretended_gpu.memory import GPU
from tests.support.pretended_gpu.recording import watching
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


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_graphs_of_layers(architecture: str, tmp_path: Path) -> None:
    """Batches of several sizes, one after the other on the same memory, give what single launches give."""
    write_checkpoint(architecture, tmp_path)
    plain, captured = (load_encoder(tmp_path, architecture, device=DEVICE, precision="bf16", pack=False) for _ in range(2))
    captured.capture()
    if not captured.capabilities.unpadded:
        assert not captured.graph_sizes
        pytest.skip("its layers read padded rows")
    assert len(captured.graph_sizes) == len(graph_rooms.rooms_for(captured.shape.max_tokens)), "the log says why"
    for rows, length in ((1, 24), (8, 24), (3, 9), (40, 7), (8, 24)):
        batch = sequences(plain, rows, length)
        for question in ("FillMask", "logits of all tokens", "hidden states"):
            assert_same(answers(captured, question, batch), answers(plain, question, batch))


@pytest.mark.usefixtures("pretended")
def test_a_graph_is_one_launch(tmp_path: Path) -> None:
    write_checkpoint("bert", tmp_path, settings={"num_hidden_layers": 12})
    encoder = load_encoder(tmp_path, "bert", device=DEVICE, precision="bf16", pack=False)
    batch = sequences(encoder, 8, 24)
    with watching() as before:
        answers(encoder, "FillMask", batch)
    encoder.architecture.model.requires_grad_()  # as models that nobody froze: a graph records no gradients
    encoder.capture()
    with watching() as after:
        answers(encoder, "FillMask", batch)
    assert sum(count for (what, _), count in after.launches.items() if what == "graph") == 1
    assert before.launches.total() - after.launches.total() >= 11 * 12 - 8
    assert after.launches.total() <= 40
    assert (after.to_device.total(), after.to_host.total()) == (4, 1)
    assert not after.waits


@pytest.mark.usefixtures("pretended")
def test_more_rows_than_a_graph_has_room_for_run_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And longer ones."""
    monkeypatch.setattr(graph_rooms, "ROOMS", (RoomSize(320, 8, 20),))
    write_checkpoint("bert", tmp_path)
    encoder = load_encoder(tmp_path, "bert", device=DEVICE, precision="bf16", pack=False)
    batches = [sequences(encoder, rows, length) for rows, length in ((8, 20), (9, 20), (3, 21))]
    expected = [answers(encoder, "FillMask", batch) for batch in batches]
    encoder.capture()
    for batch, before, graphs in zip(batches, expected, (1, 0, 0), strict=True):
        with watching() as seen:
            assert_same(answers(encoder, "FillMask", batch), before)
        assert sum(count for (what, _), count in seen.launches.items() if what == "graph") == graphs


def test_the_room_of_a_graph_fits_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """128 texts of 128 tokens start a sixteenth of the blocks of attention that 512 rows of 512 tokens would."""
    monkeypatch.setattr(graph_rooms, "ROOMS", ALL_ROOMS)
    sizes = graph_rooms.rooms_for(512)
    assert len(sizes) == 26
    assert all(size.longest <= 512 and size.rows >= 2 for size in sizes)
    # The longest row of a large room is the model's, and no room is twice there.
    assert {size.longest for size in graph_rooms.rooms_for(100)} == {64, 100}
    assert len(set(graph_rooms.rooms_for(8192))) == len(graph_rooms.rooms_for(8192)) == 31

    def taken(rows: int, length: int) -> tuple[int, int, int]:
        rooms = (Room(size, torch.device("cpu")) for size in sizes)
        return next(room.size for room in rooms if room.fits((length,) * rows))

    assert taken(128, 128) == (16_384, 512, 128)
    assert taken(32, 512) == (16_384, 512, 512)
    assert taken(1600, 10) == (16_384, 2048, 128)
    assert taken(1, 10) == (64, 8, 64)


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("mistake", ["memory", "item"])
def test_layers_run_without_graphs_that_fail(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No memory for graphs, or a layer that waits for the device: answers are the same, and the log says why."""
    write_checkpoint("bert", tmp_path)
    encoder = load_encoder(tmp_path, "bert", device=DEVICE, precision="bf16", pack=False)
    batch = sequences(encoder, 8, 24)
    expected = answers(encoder, "FillMask", batch)
    if mistake == "memory":
        with GPU.failing(torch.OutOfMemoryError("CUDA out of memory"), after=30):
            encoder.capture()
    else:
        run_layer = encoder.architecture.run_layer

        def waiting(*arguments: Any) -> torch.Tensor:
            found = run_layer(*arguments)
            found.sum().item()
            return found

        monkeypatch.setattr(encoder.architecture, "run_layer", waiting)
        encoder.capture()
    assert not encoder.graph_sizes
    assert "layers run without CUDA graphs on cuda:0" in caplog.text
    assert_same(answers(encoder, "FillMask", batch), expected)
