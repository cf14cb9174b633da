"""Tuned lenses: the request, files, calls that the maps are divided over, and replies that break the contract."""

from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations import lens_requests
from bertscope.questions.representations.lens_requests import requests_with
from bertscope.questions.representations.tuned_lens import TunedLensAssembler, with_lens_texts
from bertscope.questions.representations.tuned_lens_requests import train_lens_request
from bertscope.v1 import representation_lens_pb2 as lens
from bertscope.v1.representation_probes_pb2 import ProbeProgress
from bertscope.v1.representation_tuned_lens_pb2 import TrainLensRequest, TrainLensResponse

SIZE = 2
MAPS = {layer: np.full((SIZE + 1, SIZE), layer, np.float32) for layer in (3, 0)}
FIT = bertscope.LayerFit(0, 4.0, 1.5, 0.25, 0.5, 12)
LENS = bertscope.TunedLens(MAPS, 4, "none", "models/m", "sha256:0", (FIT,))


def request(texts="a text", *, dev=(), **fields) -> TrainLensRequest:
    return with_lens_texts(train_lens_request(**fields), texts, dev=dev)


def test_a_file_holds_the_lens(tmp_path: Path) -> None:
    LENS.save(tmp_path / "lens")
    found = bertscope.load_lens(tmp_path / "lens")
    assert (found.layers, found.last_layer, found.normalisation, found.fits) == ((0, 3), 4, "none", (FIT,))
    assert (found.model, found.weights_digest) == ("models/m", "sha256:0")
    np.testing.assert_array_equal(found.maps[3], MAPS[3])
    assert found.to_pandas()["divergence"].tolist() == [1.5]
    assert len(repr(found)) < 300


@pytest.mark.parametrize("content", ["text", "arrays", "cut", "probe"])
def test_a_file_of_something_else_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.npz"
    if content == "text":
        path.write_text("no lens", encoding="utf-8")
    elif content == "arrays":
        np.savez(path, layers=np.zeros(1))
    elif content == "probe":
        weights = {0: (np.zeros((4, 2), np.float32), np.zeros(2, np.float32))}
        bertscope.KeptProbe(("a", "b"), weights, "first", "models/m", "sha256:0").save(path)
    else:
        LENS.save(path)
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(bertscope.InvalidArgument, match=r"a\.npz"):
        bertscope.load_lens(path)
    with pytest.raises(FileNotFoundError):
        bertscope.load_lens(tmp_path / "missing.npz")


@pytest.mark.parametrize(
    ("message", "maps", "last", "normalisation"),
    [
        ("maps: is empty", {}, 4, "none"),
        (r"maps\[3\]: has shape \[2, 2\]", MAPS | {3: MAPS[3][1:]}, 4, "none"),
        (r"maps\[3\]: is of no layer", MAPS, 3, "none"),
        ("normalisation", MAPS, 4, "last"),
    ],
)
def test_maps_that_are_no_lens(message: str, maps: dict, last: int, normalisation: str) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=message):
        bertscope.TunedLens(maps, last, normalisation, "models/m", "")


def test_requests() -> None:
    asked = request([("a", "b"), "c"], dev=("d", "e"), layers=[2], mask_rate=0, normalisation="final", max_epochs=3)
    assert [(text.text, text.text_pair) for text in (*asked.train, *asked.dev)] == [("a", "b"), ("c", ""), ("d", "e")]
    assert (list(asked.layers), asked.HasField("mask_rate"), asked.max_epochs, asked.weights) == ([2], True, 3, True)
    assert asked.normalisation == lens.LENS_NORMALISATION_FINAL
    assert not request().HasField("learning_rate")


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("texts", {"texts": []}),
        ("texts[1].text", {"texts": ["a", 3]}),
        ("dev[0].text", {"dev": [3]}),
        ("mask_rate", {"mask_rate": "half"}),
        ("learning_rate", {"learning_rate": float("nan")}),
        ("max_epochs", {"max_epochs": 0}),
        ("patience", {"patience": -1}),
        ("normalisation", {"normalisation": "last"}),
        ("truncate", {"truncate": 1}),
    ],
)
def test_what_cannot_be_sent(field: str, fields: dict) -> None:
    with pytest.raises(bertscope.InvalidArgument) as error:
        request(**fields)
    assert error.value.field_violations[0].field == field


def test_maps_go_in_as_many_calls_as_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = lens.ReadLayersRequest(top_k=3)
    assert requests_with(plain, None) == [plain]
    (whole,) = requests_with(plain, LENS)
    assert (list(whole.layers), whole.weights_digest, whole.top_k) == ([0, 3, 4], "sha256:0", 3)
    assert [one.layer for one in whole.translators] == [0, 3]
    assert whole.normalisation == lens.LENS_NORMALISATION_NONE
    monkeypatch.setattr(lens_requests, "MAPS_BYTES", 2 * MAPS[0].nbytes)
    parts = requests_with(lens.ReadLayersRequest(layers=[4, 3, 0]), LENS)
    assert [(list(part.layers), len(part.translators)) for part in parts] == [([4, 3], 1), ([0], 1)]
    with pytest.raises(bertscope.InvalidArgument, match="has layer 1"):
        requests_with(lens.ReadLayersRequest(layers=[1]), LENS)


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


def test_a_stream_becomes_a_lens() -> None:
    stream = TunedLensAssembler()
    progress = stream.add(
        TrainLensResponse(progress={"stage": ProbeProgress.STAGE_TRAINING, "done": 1, "total": 20, "best_dev_divergence": 2})
    )
    assert progress == bertscope.TrainLensProgress("training", 1, 20, 2)
    assert stream.add(report()) is None
    data = MAPS[0].tobytes()
    assert stream.add(chunk(0, 0, data[:8])) is None
    assert stream.add(chunk(0, 8, data[8:])) is None
    found = stream.add(chunk(3, 0, MAPS[3].tobytes()))
    assert isinstance(found, bertscope.TunedLens)
    assert found.fits[0] == FIT
    np.testing.assert_array_equal(found.maps[3], MAPS[3])


@pytest.mark.parametrize(
    "messages",
    [
        [TrainLensResponse(report={})],
        [report(), chunk(0, 4, b"1234")],
        [report(), chunk(9, 0, b"1234")],
        [report(), chunk(0, 0, bytes(4 * SIZE * (SIZE + 1) + 4))],
    ],
)
def test_a_stream_that_breaks_the_contract_is_invalid(messages: list[TrainLensResponse]) -> None:
    stream = TunedLensAssembler()
    *before, last = messages
    for message in before:
        stream.add(message)
    with pytest.raises(bertscope.InvalidReply):
        stream.add(last)
