"""How many texts go into a call, and what becomes of one that fails."""

from collections.abc import Iterator

import bertscope
import pytest
from bertscope.errors import FieldViolation
from bertscope.rpc.splitting import FIRST_SIZE, LEAST_SIZE, USUAL_LIMIT, Limit, Part, Parts, located


def endless() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def size(parts: Parts[int]) -> int:
    part = parts.take()
    assert part is not None
    return len(part.items)


def test_quick_calls_grow_to_the_limit_and_slow_ones_shrink():
    parts = Parts(endless(), None, Limit())
    assert size(parts) == FIRST_SIZE
    for _ in range(5):
        parts.answered(0.1)
    assert size(parts) == USUAL_LIMIT
    parts.answered(2.0)
    assert size(parts) == USUAL_LIMIT
    parts.answered(20.0)
    assert size(parts) == USUAL_LIMIT // 2
    for _ in range(10):
        parts.answered(20.0)
    assert size(parts) == LEAST_SIZE


def test_the_pieces_of_a_call_that_was_too_large_come_first():
    parts = Parts(iter(range(20)), 20, Limit())
    part = parts.take()
    assert part is not None
    error = bertscope.InvalidArgument("too many", reason="TOO_MANY_TEXTS", metadata={"limit": "8"})
    pieces, wait = parts.refused(part, error, attempts=4)
    assert ([len(piece.items) for piece in pieces], [piece.start for piece in pieces], wait) == ([8, 8, 4], [0, 8, 16], 0.0)
    parts.put_back(pieces)
    assert parts.take() == pieces[0]
    empty = Parts(iter([]), 0, Limit())
    assert (empty.take(), empty.take()) == (Part(0, []), None)
    empty.end()
    parts = Parts(iter(["a"]), 1, Limit())
    only = parts.take()
    assert only is not None
    with pytest.raises(bertscope.InvalidArgument):
        parts.refused(only, bertscope.InvalidArgument("too much", reason="TOO_MANY_TOKENS"), attempts=4)
    parts.check_weights(0, "sha256:1")
    parts.check_weights(2, "sha256:1")
    with pytest.raises(bertscope.FailedPrecondition, match="from text 3 on") as caught:
        parts.check_weights(3, "sha256:2")
    assert caught.value.reason == "CLIENT_SIDE"


def test_a_message_that_is_too_large_for_grpc_is_halved():
    parts = Parts(iter("abcd"), 4, Limit())
    part = parts.take()
    assert part is not None
    pieces, _ = parts.refused(part, bertscope.ResourceExhausted("Received message larger than max (9 vs. 4)"), attempts=4)
    assert [piece.items for piece in pieces] == [["a", "b"], ["c", "d"]]


def test_only_the_texts_of_a_call_are_renumbered():
    violation = FieldViolation("texts[1]", "texts[1] says reference_texts[1] and candidates[1]")
    error = bertscope.InvalidArgument(violation.description, field_violations=[violation])
    found = located(error, range(100, 200))
    assert found.message == "texts[101] says reference_texts[1] and candidates[1]"
    other = bertscope.InvalidArgument("x", field_violations=[FieldViolation("reference_texts[1]", "reference_texts[1] is bad")])
    assert located(other, range(100, 200)).field_violations[0].field == "reference_texts[1]"
