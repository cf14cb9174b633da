"""How much work goes into a call, so that each takes a few seconds on any server, and what becomes of one that fails."""

from collections import deque
from collections.abc import Iterator

import bertscope
import pytest
from bertscope.errors import FieldViolation
from bertscope.rpc.pacing import CALL_SECONDS, FIRST_WORK, Pace, text_work
from bertscope.rpc.splitting import CALLS_UNDER_WAY, FIRST_SIZE, LEAST_SIZE, USUAL_LIMIT, Limit, Part, Parts, located

LONG = "river " * 96
"""As many bytes as a text of 128 tokens."""
DEFAULT_TIMEOUT = 60.0


def pace(seconds: float | None = DEFAULT_TIMEOUT, reference_texts: tuple[str, ...] = ()) -> Pace[str]:
    return Pace(text_work, seconds, reference_texts, width=CALLS_UNDER_WAY)


def parts_of(texts: list[str], *, counted: bool = True, seconds: float = DEFAULT_TIMEOUT) -> Parts[str]:
    return Parts(iter(texts), len(texts) if counted else None, Limit(), pace=pace(seconds))


def simulated(parts: Parts[str], seconds_of: float, *, power: float = 1.0) -> list[tuple[int, float]]:
    """Answers calls one after the other, as a device does. Returns the texts and the seconds of each.

    A text takes `seconds_of` times its length, relative to that of LONG, to the given power.
    """
    now, free = 0.0, 0.0
    running: deque[tuple[Part[str], float, float, float]] = deque()
    found = []
    while True:
        while len(running) < parts.width and (part := parts.take()) is not None:
            work = parts.work(part) + sum(parts.work(other) for other, *_ in running)
            free = max(now, free) + 0.01 + sum(seconds_of * (len(text) / len(LONG)) ** power for text in part.items)
            running.append((part, work, now, free))
        if not running:
            parts.end()
            return found
        part, work, begun, now = running.popleft()
        found.append((len(part.items), now - begun))
        parts.answered(now - begun, work)


def test_work_grows_with_the_square_of_long_texts_only():
    assert text_work("a" * 32) / text_work("a" * 16) == pytest.approx(2, rel=0.1)
    assert text_work("a" * 65536) / text_work("a" * 32768) == pytest.approx(4, rel=0.1)
    assert text_work(("ab", "cd")) == text_work("abcd")
    assert text_work("河" * 10) > text_work("a" * 20)
    assert text_work("\ud800") > 0


@pytest.mark.slow
@pytest.mark.parametrize("seconds_of", [0.001, 0.5, 2.0])
@pytest.mark.parametrize("counted", [True, False])
def test_no_call_takes_longer_than_it_may_whatever_the_server(seconds_of: float, counted: bool) -> None:
    found = simulated(parts_of([LONG] * 1000, counted=counted), seconds_of)
    assert sum(texts for texts, _ in found) == 1000
    assert found[0][0] * text_work(LONG) <= FIRST_WORK + text_work(LONG)
    assert max(seconds for _, seconds in found[1:]) <= 2 * CALL_SECONDS
    assert max(seconds for _, seconds in found) <= DEFAULT_TIMEOUT / 2


def test_reference_texts_are_work_of_every_call_and_take_at_most_half_of_it() -> None:
    reference = (LONG,) * 64
    paced = pace(reference_texts=reference)
    fixed = sum(map(text_work, reference))
    assert paced.work([LONG]) == fixed + text_work(LONG)
    paced.answered(paced.work([LONG]), 100.0)
    assert sum(map(text_work, paced.some(iter([LONG] * 1000)))) >= fixed


def test_texts_of_a_call_that_missed_its_deadline_are_asked_again_in_smaller_calls() -> None:
    late = bertscope.DeadlineExceeded("too late")
    parts = parts_of([LONG] * 100)
    first = parts.take()
    assert first is not None
    parts.answered(0.1, parts.work(first))
    assert parts.width == CALLS_UNDER_WAY
    part = parts.take()
    assert part is not None
    pieces, wait = parts.refused(part, late, attempts=3)
    assert (sum(len(piece.items) for piece in pieces), len(pieces), wait) == (len(part.items), 2, 0.0)
    assert parts.width == 1
    (again, _), _ = parts.refused(pieces[0], late, attempts=3)
    with pytest.raises(bertscope.DeadlineExceeded):
        parts.refused(again, late, attempts=3)


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


def test_an_overloaded_call_of_many_is_sent_again_as_often_as_it_may_and_a_single_one_never():
    busy = bertscope.ResourceExhausted("full", reason="QUEUE_FULL", retry_after=2.0)
    many, single = Parts(endless(), None, Limit()), Parts(iter("ab"), 2, Limit())
    part, _ = many.take(), many.take()
    for failures in (1, 2):
        (part,), wait = many.refused(part, busy, attempts=3)
        assert (part.start, len(part.items), part.failures, wait) == (0, FIRST_SIZE, failures, 2.0)
    for parts, last in ((many, part), (single, single.take())):
        with pytest.raises(bertscope.ResourceExhausted):
            parts.refused(last, busy, attempts=3)


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
