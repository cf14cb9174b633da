"""SweepHeads, RankHeads and PruneHeads over a socket: what arrives, when, and what happens when it does not."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import bertscope
import numpy as np
import pytest
from google.rpc import code_pb2

from tests.support.fake_server import EVERY_HEAD, HEADS, LAYERS, difference_of
from tests.support.patience import granted

PROMPTS = bertscope.ClozePrompts([("a [MASK]", "b")])
DIFFERENCES = [[difference_of(layer, head) for head in range(HEADS)] for layer in range(LAYERS)]


@pytest.fixture
def stuck(wait_for: threading.Event) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A sweep that stops after its second effect, until the call or the test ends."""

    def stream(messages: Iterator[Any]) -> Iterator[Any]:
        yield from itertools.islice(messages, 3)
        wait_for.wait(granted(60))

    return stream


def test_effects_arrive_and_make_a_table(server):
    with bertscope.Client(server.target) as client, client.sweep_heads(PROMPTS, model="fake", resamples=500) as sweep:
        assert server.requests == []  # The call begins when the first thing is asked for.
        assert sweep.start.baseline == {"accuracy": 0.5, "loss": 2.0}
        assert (sweep.start.total, sweep.start.items, sweep.start.skipped_items) == (12, 20, 2)
        first = next(sweep)
        assert (first.layer, first.head, first.difference) == (0, 0, difference_of(0, 0))
        rest = list(sweep)
        table = sweep.table()
    assert table.effects == (first, *rest)
    assert [effect.heads for effect in table.effects] == [
        {layer: tuple(heads) for layer, heads in each.items()} for each in EVERY_HEAD
    ]
    np.testing.assert_array_equal(table.matrix(), DIFFERENCES)
    assert table.summary.layer_passes == 600
    assert table.provenance.model == "models/fake"
    (request,) = server.requests
    assert (request.model, request.bootstrap.resamples) == ("models/fake", 500)


def test_closing_a_sweep_cancels_the_call(server, stuck):
    server.stream = stuck
    with bertscope.Client(server.target) as client:
        with client.sweep_heads(PROMPTS) as sweep:
            assert next(sweep).head == 0
            assert not server.ended.is_set()
        assert server.ended.wait(granted(30))
        assert list(sweep) == []
        with pytest.raises(bertscope.Cancelled, match="closed before it ended"):
            sweep.table()
        assert sweep.start.total == 12


@pytest.mark.asyncio
async def test_closing_an_async_sweep_cancels_the_call(server, stuck):
    server.stream = stuck
    async with bertscope.AsyncClient(server.target) as client:
        async with client.sweep_heads(PROMPTS) as sweep:
            assert (await sweep.started()).total == 12
            assert (await anext(sweep)).head == 0
            assert not server.ended.is_set()
        assert await asyncio.to_thread(server.ended.wait, granted(30))
        with pytest.raises(bertscope.Cancelled):
            await sweep.table()
        never_begun = client.sweep_heads(PROMPTS)
        await never_begun.aclose()
        with pytest.raises(bertscope.Cancelled):
            await never_begun.started()
    assert len(server.requests) == 1


@pytest.mark.asyncio
async def test_a_stream_without_its_end_is_an_invalid_reply(server):
    server.stream, message = lambda messages: iter([*messages][:-1]), "ended early: 12 of 12 effects and no summary"
    with bertscope.Client(server.target) as client:
        sweep = client.sweep_heads(PROMPTS)
        with pytest.raises(bertscope.InvalidReply, match=message):
            list(sweep)
        with pytest.raises(bertscope.InvalidReply, match=message):  # And stays one, however often it is asked.
            sweep.table()
    async with bertscope.AsyncClient(server.target) as client:
        with pytest.raises(bertscope.InvalidReply, match=message):
            await client.sweep_heads(PROMPTS).table()
    assert server.ended.wait(granted(30))


def test_an_error_is_raised_by_whatever_is_asked(server, abort):
    server.fail = abort(code_pb2.UNIMPLEMENTED, "models/fake has no masked-LM head")
    with bertscope.Client(server.target) as client:
        sweep = client.sweep_heads(PROMPTS)
        for _ in range(2):
            with pytest.raises(bertscope.Unimplemented, match="masked-LM head"):
                _ = sweep.start
        with pytest.raises(bertscope.Unimplemented):
            sweep.table()


@pytest.mark.slow
def test_long_calls_outlast_the_timeout_of_the_client(server, wait_for):
    server.fail = lambda context: wait_for.wait(0.3)
    with bertscope.Client(server.target, timeout=0.05) as client:
        assert client.rank_heads(PROMPTS).items == 7
        assert client.prune_heads("x", {0: 1}).name == "models/x"
        with pytest.raises(bertscope.DeadlineExceeded):
            client.rank_heads(PROMPTS, timeout=0.05)
        with pytest.raises(bertscope.DeadlineExceeded):
            client.sweep_heads(PROMPTS, timeout=0.05).table()
        with pytest.raises(bertscope.DeadlineExceeded):
            client.classify("a")
