"""A sweep is not felt by others, and ends with its caller."""

from collections.abc import Callable
from itertools import islice, product
from pathlib import Path

import pytest
from bertscope.v1 import cloze_pb2 as cloze

from tests.support.calls import call
from tests.support.harness import CALL_SECONDS, Host, held, interactive_rows_wait
from tests.support.patience import granted, wait_until
from tests.support.sweeps import ZERO, Request, divergence, head_set

GOOD = cloze.FillMaskRequest(texts=["The [MASK] sat."])
BATCH, TOKENS = 64, 6
"""[CLS] the [MASK] sat . [SEP]"""

TEXTS = [f"The {word} is in the [MASK]." for word in ("cat", "dog", "man", "bird", "house", "city", "river", "garden")]
SOME = [(0,), (1,), (2,), (0, 1), (3,)]
SETS = [head_set(tuple(enumerate(numbers))) for numbers in islice(product(SOME, repeat=4), 40)]
"""Sets of heads of all four layers, all of which begin in the lowest."""


@pytest.mark.slow
def test_others_go_before_the_rows_of_a_sweep_which_are_dropped_once_it_is_cancelled(
    launch: Callable[..., Host], checkpoints: dict[str, Path], check_alive: Callable[[Host], None]
) -> None:
    """And the model can be unloaded while a batch of it runs."""
    small = launch(model=[f"{name}={checkpoints['bert']}" for name in ("a", "b")], batch_tokens=BATCH)

    def waiting() -> float:
        return small.metric("bertscope_queue_rows", device="cpu")

    def rows() -> float:
        return small.metric("bertscope_batch_rows_sum", device="cpu")

    computed = rows()
    with held(small) as gate:
        released = 0
        request = Request(mode=ZERO, objective=divergence(TEXTS), sets=SETS)
        sweep = small.ablation.SweepHeads(request, timeout=granted(60))
        # The baseline, the states before the lowest layer, and one head.
        while rows() < computed + 3 * len(TEXTS):
            wait_until(lambda: gate.arrived > released or rows() >= computed + 3 * len(TEXTS), "a batch arrives")  # noqa: B023
            gate.let_through(gate.arrived - released)
            released = gate.arrived
        assert next(sweep).HasField("start")
        for _ in range(5):
            wait_until(lambda: gate.arrived > released and waiting() > 5, "a batch of the sweep runs, others wait")  # noqa: B023
            answer = small.cloze.FillMask.future(GOOD, timeout=CALL_SECONDS)
            wait_until(lambda: interactive_rows_wait(small), "the call waits")
            done = rows()
            gate.let_through(2)  # the batch that runs, and the next one: the call's
            released += 2
            assert len(answer.result().results) == 1
            assert rows() - done <= BATCH // TOKENS + 1
        wait_until(lambda: gate.arrived > released and waiting() > 5, "it is in the middle")
        arrived, waited = gate.arrived, waiting()
        sweep.cancel()
        wait_until(lambda: waiting() == small.metric("bertscope_requests_in_flight") == 0, "its rows are dropped")
        assert small.metric("bertscope_queue_tokens", device="cpu") == 0
        assert small.metric("bertscope_rows_dropped_total", reason="cancelled") >= waited
        call(small, "UnloadModel", name="models/a")
    check_alive(small)
    assert gate.arrived == arrived
