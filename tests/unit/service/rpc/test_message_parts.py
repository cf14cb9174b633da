"""Large messages are parsed and serialised in parts, to the same as at once."""

import random

import pytest
from bertscope.v1 import ablation_pb2, attention_relations_pb2, cloze_pb2, common_pb2, site_pb2
from bertscope_service import cancellation
from bertscope_service.cancellation import Cancellation, WorkCancelledError
from bertscope_service.rpc import message_parts
from bertscope_service.rpc.message_parts import parse_in_parts, serialize_in_parts
from google.protobuf.message import DecodeError, Message


def nested() -> cloze_pb2.FillMaskRequest:
    """A request with long lists at three depths, a large tensor, numbers of all kinds, and a field that nobody knows."""
    request = cloze_pb2.FillMaskRequest(model="models/bert", top_k=2**31, truncate=True, piece_ids=range(500))
    request.texts.extend(f"text {number} 東京" for number in range(300))
    for layer in range(40):
        change = request.site_interventions.add(site=site_pb2.SITE_STATE, layer=layer)
        change.change.source.input.text = "x" * 400
        for number in range(60):
            change.change.source.interventions.add(site=site_pb2.SITE_STATE).change.scale = number / 7
            change.positions.spans.spans.add(start=number, end=number + 1)
    change = request.site_interventions.add()
    change.change.set.CopyFrom(common_pb2.Tensor(shape=[2, 600], data=bytes(range(240)) * 20))
    return request


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_parts, "PART_BYTES", 100)


@pytest.mark.usefixtures("small_parts")
def test_a_message_is_the_same_in_parts() -> None:
    request = nested()
    raw = request.SerializeToString()
    assert parse_in_parts(cloze_pb2.FillMaskRequest, raw) == request
    assert cloze_pb2.FillMaskRequest.FromString(serialize_in_parts(request)) == request
    assert serialize_in_parts(cloze_pb2.FillMaskRequest()) == b""
    assert parse_in_parts(cloze_pb2.FillMaskRequest, b"") == cloze_pb2.FillMaskRequest()
    # What is there twice is merged, and of a choice the last counts.
    other = site_pb2.SiteIntervention(layer=3)
    other.change.add.vector.data = bytes(500)
    last = site_pb2.SiteIntervention()
    last.change.source.input.text = "y" * 300
    twice = other.SerializeToString() + last.SerializeToString() + b"\x98\x06\x01\xa1\x06" + bytes(8) + b"\xa5\x06" + bytes(4)
    assert parse_in_parts(site_pb2.SiteIntervention, twice) == site_pb2.SiteIntervention.FromString(twice)


@pytest.mark.usefixtures("small_parts")
def test_damaged_bytes_are_refused_as_at_once() -> None:
    raw, draw = nested().SerializeToString(), random.Random(3)
    kinds: tuple[type[Message], ...] = (cloze_pb2.FillMaskRequest, ablation_pb2.SweepHeadsRequest)
    kinds += (attention_relations_pb2.ScoreRelationsRequest,)
    refused = 0
    for _ in range(150):
        damaged = bytearray(raw)
        for _ in range(draw.randint(0, 3)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        data, kind = bytes(damaged[: draw.randint(len(raw) // 2, len(raw))]), draw.choice(kinds)
        try:
            expected = kind.FromString(data)
        except DecodeError:
            refused += 1
            with pytest.raises(DecodeError):
                parse_in_parts(kind, data)
        else:
            assert parse_in_parts(kind, data).SerializeToString() == expected.SerializeToString()
    assert refused > 30


@pytest.mark.usefixtures("small_parts")
def test_parsing_ends_with_its_caller() -> None:
    token = cancellation.current.set(Cancellation(cancelled=True))
    try:
        with pytest.raises(WorkCancelledError):
            parse_in_parts(cloze_pb2.FillMaskRequest, nested().SerializeToString())
    finally:
        cancellation.current.reset(token)
