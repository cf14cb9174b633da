"""Tuned lenses: the request, files, calls that the maps are divided over, and replies that break the contract."""

from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations import tuned_lens
from bertscope.questions.representations.tuned_lens import TunedLensAssembler, requests_with, with_lens_texts
from bertscope.v1 import representation_lens_pb2 as lens
from bertscope.v1.representation_probes_pb2 import ProbeProgress
from bertscope.v1.representation_tuned_lens_pb2 import TrainLensRequest, TrainLensResponse
from bertscope.values.requests import request_of

from tests.support.broken_replies import refusals

SIZE = 2
MAPS = {layer: np.full((SIZE + 1, SIZE), layer, np.float32) for layer in (3, 0)}
FIT = bertscope.LayerFit(0, 4.0, 1.5, 0.25, 0.5, 12)
LENS = bertscope.TunedLens(MAPS, 4, "none", "models/m", "sha256:0", (FIT,))


def request(texts="a text", *, dev=(), **fields) -> TrainLensRequest:
    return with_lens_texts(request_of(TrainLensRequest, **fields), texts, dev=dev)


def report() -> TrainLensResponse:
    response = TrainLensResponse()
    own = response.report
    own.hidden_size, own.last_layer, own.dev.pieces, own.normalisation = SIZE, 4, 8, lens.LENS_NORMALISATION_NONE
    own.provenance.model = "models/m"
    for layer in sorted(MAPS):
        fits = {"before": {"divergence": 4, "agreeing": 2}, "after": {"divergence": 1.5, "agreeing": 4}}
        own.layers.add(layer=layer, steps=12, **fits)
    return response


def chunk(layer: int, offset: int, data: bytes) -> TrainLensResponse:
    return TrainLensResponse(chunk={"layer": layer, "offset": offset, "data": data})


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    LENS.save("lens")
    Path("text.npz").write_text("no lens", encoding="utf-8")
    np.savez("arrays.npz", layers=np.zeros(1))
    weights = {0: (np.zeros((4, 2), np.float32), np.zeros(2, np.float32))}
    bertscope.KeptProbe(("a", "b"), weights, "first", "models/m", "sha256:0").save("probe.npz")
    Path("cut.npz").write_bytes(Path("lens").read_bytes()[:200])
    found = bertscope.load_lens("lens")
    stored(
        lens=found,
        refused=[
            *(lambda name=name: bertscope.load_lens(f"{name}.npz") for name in ("text", "arrays", "probe", "cut", "missing")),
            lambda: bertscope.TunedLens({}, 4, "none", "models/m", ""),
            lambda: bertscope.TunedLens(MAPS | {3: MAPS[3][1:]}, 4, "none", "models/m", ""),
            lambda: bertscope.TunedLens(MAPS, 3, "none", "models/m", ""),
            lambda: bertscope.TunedLens(MAPS, 4, "last", "models/m", ""),
        ],
    )


def test_requests(monkeypatch: pytest.MonkeyPatch, stored) -> None:
    plain = lens.ReadLayersRequest(top_k=3)
    (whole,) = requests_with(plain, LENS)
    monkeypatch.setattr(tuned_lens, "MAPS_BYTES", 2 * MAPS[0].nbytes)
    parts = requests_with(lens.ReadLayersRequest(layers=[4, 3, 0]), LENS)
    stored(
        training=request([("a", "b"), "c"], dev=("d", "e"), layers=[2], mask_rate=0, normalisation="final", max_epochs=3),
        without_maps=requests_with(plain, None),
        with_maps=whole,
        in_as_many_calls_as_they_need=[[list(part.layers), len(part.translators)] for part in parts],
        refused=[
            lambda: requests_with(lens.ReadLayersRequest(layers=[1]), LENS),
            lambda: request([]),
            lambda: request(["a", 3]),
            lambda: request(dev=[3]),
        ],
    )


def test_a_stream_becomes_a_lens(stored) -> None:
    training = {"stage": ProbeProgress.STAGE_TRAINING, "done": 1, "total": 20, "best_dev_divergence": 2}
    data = MAPS[0].tobytes()
    good = report(), chunk(0, 0, data[:8]), chunk(0, 8, data[8:]), chunk(3, 0, MAPS[3].tobytes())

    def read(messages: list[TrainLensResponse]) -> bertscope.TunedLens:
        stream = TunedLensAssembler()
        *before, found = [stream.add(message) for message in messages]
        assert before == [None] * len(before)
        return found

    stored(
        progress=TunedLensAssembler().add(TrainLensResponse(progress=training)),
        lens=read([*good]),
        broken=refusals(read, *good),
        of_no_layer=lambda: read([TrainLensResponse(report={})]),
    )
