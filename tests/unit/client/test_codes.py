"""Sparse codes: the request, files, changes, what is shown, and replies that break the contract."""

import json
import struct
from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations.codes_replies import CodesAssembler
from bertscope.questions.representations.codes_requests import train_codes_request
from bertscope.questions.representations.tuned_lens import with_lens_texts
from bertscope.v1.representation_codes_pb2 import CodesChunk, TrainCodesReport, TrainCodesResponse
from bertscope.values.changes import site_message
from bertscope_workbench.command.commands.codes import document, print_codes
from rich.console import Console

LOSSES = bertscope.CodesLosses(loss=2.0, coded=2.5, mean=6.0, zero=7.0, pieces=10)
FIT = bertscope.CodesFit(
    train_texts=9, train_pieces=90, dev_texts=1, dev_pieces=11, active=1, explained=0.8, mean_active=1.25, dead=1,
    losses=LOSSES, epochs=3, seconds=0.5,
)  # fmt: skip
ENCODER, DECODER = np.float32([[1, 0], [0, 2], [1, 1]]), np.float32([[1, 0], [0, 1], [0.6, 0.8]])
CODES = bertscope.SparseCodes(
    ENCODER,
    np.float32([0, -1, 0.5]),
    np.float32([0.5, 0, 9]),
    DECODER,
    np.float32([1, 1]),
    3,
    "models/m",
    "sha256:0",
    FIT,
    "texts",
)


def test_activations_are_what_exceeds_a_threshold() -> None:
    states = np.float32([[[2, 1], [1.5, 4]]])
    np.testing.assert_array_equal(CODES.encode(states), [[[1, 0, 0], [0, 5, 0]]])
    np.testing.assert_array_equal(CODES.decode(CODES.encode(states)), [[[2, 1], [1, 6]]])


def test_a_file_holds_codes(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    for half in (False, True):
        CODES.save(tmp_path / "a.safetensors", half=half)
        found = bertscope.SparseCodes.load(tmp_path / "a.safetensors")
        np.testing.assert_array_equal(found.encoder, ENCODER)
        np.testing.assert_allclose(found.decoder, DECODER, rtol=1e-3 * half)
        assert (found.layer, found.model, found.weights_digest, found.about) == (3, "models/m", "sha256:0", "texts")
        assert found.fit == FIT
        arrays = load_file(tmp_path / "a.safetensors")
        assert (arrays["decoder"].dtype, arrays["mean"].shape) == (np.float16 if half else np.float32, (2,))
    assert found.to_pandas()["recovered"].tolist() == [0.9]
    assert len(repr(found)) < 400


@pytest.mark.parametrize("content", ["text", "cut", "other", "shape", "offsets", "integers", "header", "scores"])
def test_a_file_of_something_else_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.safetensors"
    CODES.save(path)
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header, data = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    card = json.loads(header["__metadata__"]["card"])
    if content == "other":
        card["format"] = "bertscope erasers"
    elif content == "scores":
        card["fit"]["dead"] = "none"
    elif content == "shape":
        header["mean"]["shape"] = [3]
    elif content == "offsets":
        header["mean"]["data_offsets"] = [len(data), len(data) + 8]
    elif content == "integers":
        header["mean"]["dtype"] = "I32"
    header["__metadata__"]["card"] = json.dumps(card)
    written = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", 1 << 40 if content == "header" else len(written)) + written + data)
    if content in ("text", "cut"):
        path.write_bytes(b"no codes" if content == "text" else whole[:-1])
    with pytest.raises(bertscope.InvalidArgument, match=r"a\.safetensors"):
        bertscope.SparseCodes.load(path)
    with pytest.raises(FileNotFoundError):
        bertscope.SparseCodes.load(tmp_path / "missing.safetensors")


@pytest.mark.parametrize(
    ("field", "place", "value"),
    [
        ("encoder", 0, [1.0]),
        ("biases", 1, [1.0]),
        ("thresholds", 2, [0.0, -1.0, 0.0]),
        ("decoder", 3, [[1.0, 2.0]]),
        ("mean", 4, [1.0, float("nan")]),
    ],
)
def test_arrays_that_are_no_codes(field: str, place: int, value: list) -> None:
    arrays = [CODES.encoder, CODES.biases, CODES.thresholds, CODES.decoder, CODES.mean]
    arrays[place] = np.array(value)
    with pytest.raises(bertscope.InvalidArgument) as error:
        bertscope.SparseCodes(*arrays, 3, "", "")
    assert error.value.field_violations[0].field == field


def test_changes() -> None:
    one = site_message(CODES.change(1, factor=0))
    assert (one.layer, one.change.codes.factor, one.change.codes.replace) == (3, 0, False)
    assert list(one.change.codes.encoder.shape) == [1, 2]
    assert np.frombuffer(one.change.codes.biases.data, "<f4").tolist() == [-1]
    whole = site_message(CODES.reconstruct(positions="masks"))
    assert (list(whole.change.codes.decoder.shape), whole.change.codes.replace, whole.change.codes.factor) == (
        [3, 2],
        True,
        1,
    )
    assert whole.positions != one.positions
    for codes, factor in (([3], 0.0), ([], 0.0), ([1, 1], 0.0), ([-1], 0.0), (None, float("nan"))):
        with pytest.raises(bertscope.InvalidArgument):
            CODES.change(codes, factor=factor)


def test_requests() -> None:
    request = train_codes_request(layer=2, codes=8, active=3, epochs=4, learning_rate=0.1)
    asked = with_lens_texts(request, [("a", "b"), "c"], dev="d")
    assert [(text.text, text.text_pair) for text in (*asked.train, *asked.dev)] == [("a", "b"), ("c", ""), ("d", "")]
    assert (asked.layer, asked.codes, asked.active, asked.epochs, asked.weights) == (2, 8, 3, 4, True)
    for field, value in {"layer": -1, "codes": 0, "active": 0, "epochs": 0, "mask_rate": "x"}.items():
        with pytest.raises(bertscope.InvalidArgument, match=field):
            train_codes_request(**{"layer": 2, field: value})


REPORT = TrainCodesReport(layer=3, codes=3, hidden_size=2, threshold=0.5)
DATA = np.concatenate([np.ravel(part) for part in (CODES.mean, ENCODER, CODES.biases, DECODER)]).astype("<f4").tobytes()


def test_the_stream_is_read() -> None:
    assembler = CodesAssembler()
    assert assembler.add(TrainCodesResponse(report=REPORT)) is None
    assert assembler.add(TrainCodesResponse(chunk=CodesChunk(offset=0, data=DATA[:12]))) is None
    found = assembler.add(TrainCodesResponse(chunk=CodesChunk(offset=12, data=DATA[12:])))
    assert isinstance(found, bertscope.SparseCodes)
    for name in ("encoder", "biases", "decoder", "mean"):
        np.testing.assert_array_equal(getattr(found, name), getattr(CODES, name))
    assert found.thresholds.tolist() == [0.5] * 3
    assert found.fit is not None
    assert found.fit.losses is None


@pytest.mark.parametrize(
    "events",
    [
        [CodesChunk(data=DATA)],
        [TrainCodesReport()],
        [REPORT, CodesChunk(offset=4, data=DATA)],
        [REPORT, CodesChunk(data=DATA + b"0000")],
    ],
)
def test_replies_that_break_the_contract(events: list) -> None:
    assembler = CodesAssembler()
    *before, last = (TrainCodesResponse(**{"chunk" if isinstance(event, CodesChunk) else "report": event}) for event in events)
    for message in before:
        assembler.add(message)
    with pytest.raises(bertscope.InvalidReply):
        assembler.add(last)


def test_what_is_shown() -> None:
    screen = Console(width=100, record=True)
    print_codes(screen, CODES)
    shown = screen.export_text()
    assert "3 codes of state 3, trained on 90 pieces, measured on 11" in shown
    assert "80.0 %" in shown
    assert "90.0 %" in shown
    assert "87.5 %" in shown
    assert document(CODES)["recovered"] == 0.9
    bare = bertscope.SparseCodes(CODES.encoder, CODES.biases, CODES.thresholds, CODES.decoder, CODES.mean, 3, "m", "")
    assert document(bare)["explained"] is None
    print_codes(screen, bare)
    assert "3 codes of state 3" in screen.export_text()
