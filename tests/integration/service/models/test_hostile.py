"""Odd sources, broken checkpoints, oversized names and requests: a typed error each, at once, and nothing is held up."""

from itertools import product

import grpc
import pytest
from bertscope.v1 import cloze_pb2

from tests.support.harness import CALL_SECONDS, Host, refused

Code = grpc.StatusCode


WORDS = ["".join(letters) for letters in product("abcdefghij", repeat=3)]


@pytest.mark.parametrize(
    ("texts", "candidates", "reason"),
    [
        (20, WORDS, "TOO_MANY_PREDICTIONS"),
        (3, [f"{'cat ' * 200}{word}" for word in WORDS], "TEXT_TOO_LONG"),
        (3, [f"{'cat ' * 300}{word}" for word in WORDS], "CANDIDATE_TOO_LARGE"),
    ],
    ids=["many", "long", "too long"],
)
def test_too_much_work_is_refused_before_it_is_done(host: Host, texts: int, candidates: list[str], reason: str) -> None:
    request = cloze_pb2.FillMaskRequest(texts=["[MASK]" * 60] * texts, candidates=candidates)
    with refused(Code.INVALID_ARGUMENT) as failures:
        host.cloze.FillMask(request, timeout=3 * CALL_SECONDS)
    assert failures[0].info.reason == reason


@pytest.mark.parametrize(
    ("one", "field"), [(b"\x2a\x00", "interventions[0].mode"), (b"\x2a\x02\x18\x01", "interventions")], ids=["empty", "zero"]
)
def test_a_flood_of_interventions(host: Host, one: bytes, field: str) -> None:
    """A million of them, each of two bytes or four."""
    with refused(Code.INVALID_ARGUMENT) as failures:
        host.raw("ClozeService/FillMask", b"\x12\x06[MASK]" + one * 1_000_000)
    assert failures[0].fields == [field]
