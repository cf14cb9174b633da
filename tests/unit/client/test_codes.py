"""Sparse codes: the request, files, changes, what is shown, and replies that break the contract."""

import json
import struct
from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations.codes import CodesAssembler
from bertscope.questions.representations.tuned_lens import with_lens_texts
from bertscope.v1.representation_codes_pb2 import CodesChunk, TrainCodesReport, TrainCodesRequest, TrainCodesResponse
from bertscope.values.changes import site_message
from bertscope.values.requests import request_of
from bertscope_workbench.command.commands.codes import document, print_codes

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import printed

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


REPORT = TrainCodesReport(layer=3, codes=3, hidden_size=2, threshold=0.5)
DATA = np.concatenate([np.ravel(part) for part in (CODES.mean, ENCODER, CODES.biases, DECODER)]).astype("<f4").tobytes()


def test_changes_requests_and_output(stored) -> None:
    request = request_of(TrainCodesRequest, layer=2, codes=8, active=3, epochs=4, learning_rate=0.1)
    arrays = [CODES.encoder, CODES.biases, CODES.thresholds, CODES.decoder, CODES.mean]
    bare = bertscope.SparseCodes(*arrays, 3, "m", "")

    def with_array(place: int, value: list) -> bertscope.SparseCodes:
        return bertscope.SparseCodes(*arrays[:place], np.array(value), *arrays[place + 1 :], 3, "", "")

    stored(
        request=with_lens_texts(request, [("a", "b"), "c"], dev="d"),
        change=site_message(CODES.change(1, factor=0)),
        reconstruct=site_message(CODES.reconstruct(positions="masks")),
        shown=repr(CODES),
        frame=CODES.to_pandas(),
        printed=printed(print_codes, CODES),
        printed_bare=printed(print_codes, bare),
        document=document(CODES),
        document_bare=document(bare),
        refused=[
            *(lambda given=given: CODES.change(given, factor=0.0) for given in ([3], [], [1, 1], [-1])),
            lambda: CODES.change(None, factor=float("nan")),
            lambda: with_array(0, [1.0]),
            lambda: with_array(1, [1.0]),
            lambda: with_array(2, [0.0, -1.0, 0.0]),
            lambda: with_array(3, [[1.0, 2.0]]),
            lambda: with_array(4, [1.0, float("nan")]),
        ],
    )


def test_the_stream_is_read(stored) -> None:
    def read(messages: list) -> bertscope.SparseCodes:
        assembler = CodesAssembler()
        *before, found = [assembler.add(message) for message in messages]
        assert before == [None] * len(before)
        return found

    parts = [TrainCodesResponse(chunk=CodesChunk(offset=at, data=DATA[at : at + size])) for at, size in ((0, 12), (12, 999))]
    good = TrainCodesResponse(report=REPORT), *parts
    stored(codes=read([*good]), broken=refusals(read, *good))


CARDS = {"other": {"format": "bertscope erasers"}, "scores": {"fit": {"dead": "none"}}}
HEADERS = {"shape": {"shape": [3]}, "offsets": {"data_offsets": [0, 1 << 40]}, "integers": {"dtype": "I32"}}


def test_a_file_of_something_else_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    CODES.save(path)
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    contents = {"text": b"no codes", "cut": whole[:-1], "header": struct.pack("<Q", 1 << 40) + whole[8:]}
    for name in (*CARDS, *HEADERS):
        header = json.loads(whole[8 : 8 + length])
        card = json.loads(header["__metadata__"]["card"]) | CARDS.get(name, {})
        header["__metadata__"]["card"] = json.dumps(card)
        header["mean"] |= HEADERS.get(name, {})
        written = json.dumps(header).encode()
        contents[name] = struct.pack("<Q", len(written)) + written + whole[8 + length :]
    for content in contents.values():
        path.write_bytes(content)
        with pytest.raises(bertscope.InvalidArgument, match=r"a\.safetensors"):
            bertscope.SparseCodes.load(path)
    with pytest.raises(FileNotFoundError):
        bertscope.SparseCodes.load(tmp_path / "missing.safetensors")
