"""How the time until callers hear again is read off their calls; nothing is asked."""

import math

from benchmarks.serving.failover import Call, _until_answered


def test_it_is_the_wait_of_the_caller_that_waits_longest() -> None:
    callers = [
        [Call(0.0, 0.9, answered=True), Call(0.9, 1.2, answered=True), Call(1.2, 5.0, answered=True)],
        [Call(0.5, 1.1, answered=False), Call(1.1, 1.6, answered=True)],
    ]
    assert _until_answered(callers, 1.0) == 1.6 - 1.0


def test_a_caller_that_is_never_answered_waits_for_ever() -> None:
    callers = [[Call(0.0, 1.5, answered=True)], [Call(0.0, 1.2, answered=False)]]
    assert _until_answered(callers, 1.0) == math.inf
