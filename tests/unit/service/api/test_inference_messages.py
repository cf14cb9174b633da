"""Requests of the Open Inference Protocol: what is refused and why, and that what is read is what was sent."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from bertscope.inference import open_inference_pb2 as oip
from bertscope_service.analyses.tensors import TensorQuery
from bertscope_service.api.inference_requests import check_version, model_name, parse_infer
from bertscope_service.api.inference_tensors import header
from bertscope_service.api.limits import RequestLimits
from bertscope_service.encoders.base import Capabilities, Shape
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument, NotFound, Unsupported
from bertscope_service.models.loaded import LoadedModel
from google.protobuf.internal import encoder
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from tests.support.tensors import prefixed, request_of

VOCABULARY, LONGEST = 50, 12
LIMITS = RequestLimits(texts=4, text_characters=40, candidates=1000, tokens=1_000_000)
IDS = np.array([[2, 3, 4, 5], [6, 7, 8, 9]])
SHAPE = Shape("bert", 2, 2, 8, VOCABULARY, LONGEST, 1000)
HAS_HEAD = Capabilities(masked_lm=True)
FAST = settings(max_examples=100, deadline=None, derandomize=True, database=None)


class Encoded(list[int]):
    """Ids of a text, as TokenizedText has them."""

    @property
    def sequence(self) -> TokenSequence:
        return TokenSequence(self, [0] * len(self))


class Tokenizer:
    """One token for each character, between two special ones."""

    mask_id, max_tokens = 4, LONGEST

    def encode(self, text: str) -> Encoded:
        return Encoded([1, *(4 + ord(character) % 40 for character in text), 2])


def model_of(shape: Shape = SHAPE, capabilities: Capabilities = HAS_HEAD) -> LoadedModel:
    class Model(SimpleNamespace):
        __hash__ = object.__hash__

    encoder = SimpleNamespace(shape=shape, capabilities=capabilities)
    return cast(LoadedModel, Model(name="models/bert", encoder=encoder, tokenizer=Tokenizer()))


MODEL = model_of()


def parse(request: oip.ModelInferRequest, model: LoadedModel = MODEL) -> TensorQuery:
    return parse_infer(request, model, LIMITS)


def edited(edit: Callable[[oip.ModelInferRequest], object], **options: Any) -> oip.ModelInferRequest:
    """A good request, changed."""
    request = request_of({"input_ids": IDS, "attention_mask": np.ones_like(IDS)}, **options)
    edit(request)
    return request


def set_shape(name: str, *shape: int, **options: Any) -> oip.ModelInferRequest:
    def edit(request: oip.ModelInferRequest) -> None:
        (tensor,) = (tensor for tensor in request.inputs if tensor.name == name)
        tensor.shape[:] = shape

    return edited(edit, **options)


def with_ids(row: int, place: int, value: int) -> NDArray[np.int64]:
    ids = IDS.copy()
    ids[row, place] = value
    return ids


def with_mask(*rows: list[int]) -> oip.ModelInferRequest:
    return request_of({"input_ids": IDS, "attention_mask": np.array(rows)})


def memory(request: oip.ModelInferRequest) -> None:
    request.inputs[0].parameters["shared_memory_region"].string_param = "region"


def classes(request: oip.ModelInferRequest) -> None:
    request.outputs.add(name="logits").parameters["classification"].int64_param = 3


def text(*words: Any, **options: Any) -> oip.ModelInferRequest:
    return request_of({"text": words}, **options)


def raw_text(raw: bytes, *shape: int) -> oip.ModelInferRequest:
    request = oip.ModelInferRequest(model_name="bert", raw_input_contents=[raw])
    request.inputs.add(name="text", datatype="BYTES", shape=shape)
    return request


REFUSALS: dict[str, tuple[oip.ModelInferRequest, str, str]] = {
    "no inputs": (request_of({}), "inputs", "INPUTS_MISMATCH"),
    "texts and ids": (request_of({"text": ["a"], "input_ids": IDS}), "inputs", "INPUTS_MISMATCH"),
    "another input": (request_of({"input_ids": IDS, "pixels": IDS}), "pixels", "UNKNOWN_INPUT"),
    "an input twice": (edited(lambda r: setattr(r.inputs[1], "name", "input_ids")), "inputs[1]", "DUPLICATE"),
    "too few raw contents": (edited(lambda r: r.raw_input_contents.pop()), "raw_input_contents", "CONTENTS_MISMATCH"),
    "raw and typed contents": (
        edited(lambda r: r.inputs[1].contents.int64_contents.append(1)),
        "attention_mask",
        "CONTENTS_TWICE",
    ),
    "shared memory": (edited(memory), "input_ids", "SHARED_MEMORY"),
    "ids of floats": (edited(lambda r: setattr(r.inputs[0], "datatype", "FP32")), "input_ids", "DATATYPE_MISMATCH"),
    "texts of integers": (request_of({"text": np.array([1, 2])}), "text", "DATATYPE_MISMATCH"),
    "typed contents in a field of another datatype": (
        edited(lambda r: r.inputs[0].contents.int_contents.append(1), raw=False),
        "input_ids",
        "DATATYPE_MISMATCH",
    ),
    "too few bytes": (
        edited(lambda r: r.raw_input_contents.__setitem__(0, r.raw_input_contents[0][:-1])),
        "input_ids",
        "SIZE_MISMATCH",
    ),
    "too few elements": (edited(lambda r: r.inputs[0].contents.int64_contents.pop(), raw=False), "input_ids", "SIZE_MISMATCH"),
    "one dimension": (set_shape("input_ids", 8), "input_ids", "SHAPE_MISMATCH"),
    "no texts": (set_shape("input_ids", 0, 4), "input_ids", "SHAPE_MISMATCH"),
    "a negative dimension": (set_shape("input_ids", -2, -4), "input_ids", "SHAPE_MISMATCH"),
    "a product beyond 64 bits": (
        edited(lambda r: [t.shape.__setitem__(slice(None), [2, 2**62]) for t in r.inputs]),
        "input_ids",
        "TEXT_TOO_LONG",
    ),
    "many inputs": (edited(lambda r: [r.inputs.add() for _ in range(1000)]), "inputs", "TOO_MANY_INPUTS"),
    "many empty texts": (raw_text(bytes(4) * 1000, 1), "text", "SIZE_MISMATCH"),
    "many outputs": (edited(lambda r: [r.outputs.add(name="logits") for _ in range(1000)]), "outputs", "DUPLICATE"),
    "a row that is longer than the model reads by its padding": (
        request_of({"input_ids": np.ones((1, 13), dtype=np.int64), "attention_mask": np.eye(1, 13, dtype=np.int64)}),
        "input_ids",
        "TEXT_TOO_LONG",
    ),
    "a mask of another shape": (set_shape("attention_mask", 4, 2), "attention_mask", "SHAPE_MISMATCH"),
    "too many texts": (request_of({"input_ids": np.ones((5, 2), dtype=np.int64)}), "input_ids", "TOO_MANY_TEXTS"),
    "a text that is too long": (request_of({"input_ids": np.ones((1, 13), dtype=np.int64)}), "input_ids", "TEXT_TOO_LONG"),
    "an id beyond the vocabulary": (
        request_of({"input_ids": with_ids(1, 2, VOCABULARY)}),
        "input_ids[1, 2]",
        "ID_OUT_OF_RANGE",
    ),
    "a third segment": (
        request_of({"input_ids": IDS, "token_type_ids": np.eye(2, 4, dtype=np.int64) * 2}),
        "token_type_ids[0, 0]",
        "ID_OUT_OF_RANGE",
    ),
    "padding before a text": (with_mask([1, 1, 1, 1], [0, 1, 1, 1]), "attention_mask[1]", "MASK_UNUSABLE"),
    "a hole in a mask": (with_mask([1, 0, 1, 1], [1, 1, 1, 1]), "attention_mask[0]", "MASK_UNUSABLE"),
    "a mask with another number": (with_mask([2, 0, 0, 0], [1, 1, 1, 1]), "attention_mask[0]", "MASK_UNUSABLE"),
    "a blank text": (text("a", " "), "text[1]", "EMPTY_TEXT"),
    "a text with too many characters": (text("a" * 41), "text[0]", "TEXT_TOO_LARGE"),
    "a text that is not UTF-8": (text("a", b"\xff"), "text[1]", "NOT_UTF8"),
    "texts in a matrix": (raw_text(prefixed(b"a") * 4, 2, 2), "text", "SHAPE_MISMATCH"),
    "more texts than the shape says": (raw_text(prefixed(b"a") * 2, 1), "text", "SIZE_MISMATCH"),
    "a text longer than its bytes": (raw_text((9).to_bytes(4, "little") + b"a", 1), "text", "SIZE_MISMATCH"),
    "an output twice": (request_of({"input_ids": IDS}, ["logits", "logits"]), "outputs", "DUPLICATE"),
    "an output by classes": (edited(classes), "outputs", "UNKNOWN_PARAMETER"),
    "top_k of none": (text("a", top_k=0), "parameters.top_k", "TOP_K_OUT_OF_RANGE"),
    "top_k beyond the vocabulary": (text("a", top_k=VOCABULARY + 1), "parameters.top_k", "TOP_K_OUT_OF_RANGE"),
    "top_k in words": (text("a", top_k="three"), "parameters.top_k", "TOP_K_OUT_OF_RANGE"),
}


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_what_can_not_be_answered_is_refused_by_name(case: str) -> None:
    request, field, reason = REFUSALS[case]
    with pytest.raises(InvalidArgument) as refusal:
        parse(request)
    assert (refusal.value.field, refusal.value.reason) == (field, reason), refusal.value.message
    assert field.partition("[")[0].rpartition(".")[2].removesuffix("s") in refusal.value.message


@pytest.mark.parametrize("top_k", [3, 3.0, "3"])
def test_top_k_is_read_however_it_is_written(top_k: Any) -> None:
    assert parse(text("a", top_k=top_k)).top_k == 3


def test_an_output_that_a_model_has_not_is_unsupported() -> None:
    with pytest.raises(Unsupported) as refusal:
        parse(request_of({"input_ids": IDS}, ["label"]))
    assert "last_hidden_state" in refusal.value.message


def test_a_model_that_drops_tokens_gives_nothing_for_each_of_them() -> None:
    dropping = Capabilities(masked_lm=True, drops_tokens=True)
    asked = parse(request_of({"input_ids": IDS}), model_of(capabilities=dropping))
    assert [output.name for output in asked.outputs] == ["token", "probability"]
    headless = Capabilities(drops_tokens=True)
    with pytest.raises(Unsupported):
        parse(request_of({"input_ids": IDS}), model_of(capabilities=headless))


def test_segments_that_a_model_does_not_tell_apart_are_refused() -> None:
    one = model_of(Shape("roberta", 2, 2, 8, VOCABULARY, LONGEST, 1000, segments=1))
    parse(request_of({"input_ids": IDS, "token_type_ids": np.zeros_like(IDS)}), one)
    with pytest.raises(InvalidArgument):
        parse(request_of({"input_ids": IDS, "token_type_ids": np.ones_like(IDS)}), one)


def test_names_and_versions() -> None:
    assert model_name("bert") == model_name("models/bert") == "models/bert"
    with pytest.raises(InvalidArgument):
        model_name("")
    check_version("", "models/bert")
    check_version("1", "models/bert")
    with pytest.raises(NotFound):
        check_version("2", "models/bert")


@st.composite
def batches(draw: st.DrawFn) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids of any texts and the mask of their lengths."""
    shape = draw(st.tuples(st.integers(1, LIMITS.texts), st.integers(1, LONGEST)))
    dtype = draw(st.sampled_from([np.int64, np.int32]))
    ids = draw(arrays.arrays(dtype, shape, elements=st.integers(0, VOCABULARY - 1)))
    lengths = draw(arrays.arrays(np.int64, shape[0], elements=st.integers(1, shape[1])))
    return ids, (np.arange(shape[1]) < lengths[:, None]).astype(dtype)


@FAST
@given(batches(), st.booleans())
def test_ids_are_read_as_they_were_sent(batch: tuple[NDArray[Any], NDArray[Any]], raw: bool) -> None:
    ids, mask = batch
    query = parse(request_of({"attention_mask": mask, "input_ids": ids}, raw=raw))
    assert query.length == ids.shape[1]
    assert [list(one.ids) for one in query.sequences] == [
        row[:end].tolist() for row, end in zip(ids, mask.sum(axis=1), strict=True)
    ]
    assert all(not np.any(one.segments) and len(one.segments) == len(one.ids) for one in query.sequences)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 300, 2**21, 2**32])
def test_headers_are_protobufs_own(length: int) -> None:
    expected: list[bytes] = []
    encoder._EncodeVarint(expected.append, 6 << 3 | 2)
    encoder._EncodeVarint(expected.append, length)
    assert header(6, length) == b"".join(expected)
