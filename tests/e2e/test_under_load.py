"""Server processes under load: one that is killed loses no call, and killed clients leave nothing behind."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import bertscope
import grpc
import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import attention_pb2_grpc, cloze_pb2_grpc
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from tests.support.observed import Asker, metric
from tests.support.patience import granted, wait_until
from tests.support.process import Process

pytestmark = pytest.mark.slow

Numbers = NDArray[np.float64]
CALL_SECONDS = granted(60.0)
TEXTS = [f"The cat sat on the old [MASK] in {year}." for year in range(1900, 1906)]
FILL = cloze.FillMaskRequest(texts=TEXTS, top_k=3)
INPUTS = [common.TextInput(text=text) for text in TEXTS]
MAPS = attention.ExtractAttentionRequest(inputs=INPUTS * 4)


def fill(channel: grpc.Channel) -> Numbers:
    """The probabilities of a whole answer."""
    reply = cloze_pb2_grpc.ClozeServiceStub(channel).FillMask(FILL, timeout=CALL_SECONDS)
    return np.array([[one.probability for one in result.masks[0].predictions] for result in reply.results])


def maps(channel: grpc.Channel) -> Numbers:
    """All attention of a stream that ended well."""
    stream = attention_pb2_grpc.AttentionServiceStub(channel).ExtractAttention(MAPS, timeout=CALL_SECONDS)
    chunks = [response.chunk.data for response in stream if response.HasField("chunk")]
    return np.frombuffer(b"".join(chunks), dtype="<f4").astype(np.float64)


QUESTIONS: dict[str, Callable[[grpc.Channel], Numbers]] = {"fill": fill, "maps": maps}


def connect(process: Process) -> grpc.Channel:
    """A connection of its own, on which nothing is tried again."""
    return grpc.insecure_channel(process.target, [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)])


@pytest.fixture(scope="module")
def truths(steady: Process) -> dict[str, Numbers]:
    """What the questions' answers are."""
    return {name: ask(steady.channel) for name, ask in QUESTIONS.items()}


def filled(client: bertscope.Client) -> Numbers:
    answers = client.fill_mask(TEXTS, top_k=3)
    return np.array([[one.probability for one in text.masks[0].predictions] for text in answers])


def mapped(client: bertscope.Client) -> Numbers:
    maps = list(client.extract_attention(TEXTS * 4))
    assert [one.input_index for one in maps] == list(range(len(TEXTS) * 4))
    return np.concatenate([one.attention.reshape(-1) for one in maps]).astype(np.float64)


def described(client: bertscope.Client) -> Numbers:
    (found,) = client.list_models()
    assert client.get_model(found).weights_digest == found.weights_digest
    return np.array([found.layers, found.heads, found.parameters], dtype=np.float64)


@pytest.mark.parametrize("policy", ["pick_first", "round_robin"])
def test_a_server_that_is_killed_costs_no_read_call_of_clients_that_know_another(
    steady: Process, truths: dict[str, Numbers], launch: Callable[..., Process], tiny: Path, policy: str
) -> None:
    leaving = launch("--model", f"tiny={tiny}")
    leaving.wait_until_serving()
    both = f"ipv4:{leaving.target},{steady.target}"
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.lb_policy_name", policy)]
    with ExitStack() as stack, connect(leaving) as alone:
        clients = [stack.enter_context(bertscope.Client(both, options=options)) for _ in range(6)]
        right = {filled: truths["fill"], mapped: truths["maps"], described: described(clients[0])}
        asking = [(ask, Asker(partial(ask, client))) for ask, client in zip(2 * list(right), clients, strict=True)]
        callers = [caller for _, caller in asking]
        left = Asker(lambda: fill(alone))
        wait_until(lambda: all(len(caller.answers) >= 3 for caller in (*callers, left)), "everybody is at it")
        leaving.popen.kill()
        leaving.end()
        answered = [len(caller.answers) for caller in callers]
        wait_until(
            lambda: all(len(caller.answers) > before + 3 for caller, before in zip(callers, answered, strict=True)),
            "the other server answers everybody",
        )
        wait_until(lambda: left.errors, "who knows no other server hears of it")
        for caller in (*callers, left):
            caller.stop()
    for ask, caller in asking:
        assert not caller.errors
        for answer in caller.answers:
            assert_allclose(answer, right[ask], atol=1e-5)
    assert {error.code() for error in left.errors if isinstance(error, grpc.RpcError)} == {grpc.StatusCode.UNAVAILABLE}


LONG = [common.TextInput(text="the old man and the sea and the [MASK] " * 4) for _ in range(250)]
PAIRS = [
    ablation.HeadSet(layers=[common.LayerHeads(layer=a, heads=[b]), common.LayerHeads(layer=c, heads=[d])])
    for a in range(3)
    for c in range(a + 1, 4)
    for b in range(4)
    for d in range(4)
]
ENDLESS = ablation.SweepHeadsRequest(
    objective=ablation.Objective(divergence=ablation.Divergence(inputs=LONG)),
    mode=common.HeadIntervention.MODE_ZERO,
    sets=PAIRS,
)
"""24,000 runs: more than anybody waits for here."""

SWEEPING = """
import signal, sys, grpc
from bertscope.v1 import ablation_pb2, ablation_pb2_grpc
request = ablation_pb2.SweepHeadsRequest.FromString(sys.stdin.buffer.read())
for response in ablation_pb2_grpc.AblationServiceStub(grpc.insecure_channel(sys.argv[1])).SweepHeads(request):
    print("got one", flush=True)
"""


@contextmanager
def sweeping(process: Process) -> Iterator[subprocess.Popen[bytes]]:
    """A client in a process of its own that has the first message of an endless sweep."""
    command = [sys.executable, "-c", SWEEPING, process.target]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        try:
            assert client.stdin is not None and client.stdout is not None
            client.stdin.write(ENDLESS.SerializeToString())
            client.stdin.close()
            assert client.stdout.readline() == b"got one\n"
            yield client
        finally:
            client.kill()


def rows(process: Process) -> float:
    return metric(process, "bertscope_batch_rows_sum", device="cpu")


def test_the_work_for_a_client_that_is_killed_ends_and_nobody_else_notices(steady: Process, truths: dict[str, Numbers]) -> None:
    def in_flight() -> float:
        return metric(steady, "bertscope_requests_in_flight", method="SweepHeads")

    def cancelled() -> float:
        return metric(steady, "bertscope_requests_total", method="SweepHeads", code="CANCELLED")

    before = cancelled()
    with connect(steady) as channel:
        with sweeping(steady) as client:
            bystander = Asker(lambda: fill(channel))
            wait_until(lambda: len(bystander.answers) >= 3, "the other client is at it")
            assert in_flight() == 1
            client.kill()
            wait_until(lambda: in_flight() == 0, "the server knows")
            bystander.stop()
        assert cancelled() == before + 1
        # A call that is answered has seen the end of the batch that was at work; from then on there is only what it asks for.
        fill(channel)
        computed = rows(steady)
        for _ in range(20):
            fill(channel)
        assert rows(steady) == computed + 20 * len(TEXTS)
    assert metric(steady, "bertscope_queue_rows", device="cpu") == 0
    assert not bystander.errors
    for answer in bystander.answers:
        assert_allclose(answer, truths["fill"], atol=1e-5)
