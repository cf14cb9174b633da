"""SweepHeads, RankHeads and PruneHeads over a socket: what arrives, when, and what happens when it does not."""

import bertscope
import pytest
from google.rpc import code_pb2

PROMPTS = bertscope.ClozePrompts([("a [MASK]", "b")])


@pytest.mark.asyncio
async def test_an_async_sweep_has_a_start_once_it_has_begun(server):
    async with bertscope.AsyncClient(server.target) as client:
        async with client.sweep_heads(PROMPTS) as sweep:
            assert (await sweep.started()).total == 12
        never_begun = client.sweep_heads(PROMPTS)
        await never_begun.aclose()
        for closed in (sweep.table, never_begun.started):
            with pytest.raises(bertscope.Cancelled):
                await closed()
    assert len(server.requests) == 1


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
