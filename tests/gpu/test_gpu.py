"""On a GPU: the same numbers as on the CPU, by the encoder alone and through a server under load; and what no memory means."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.checkpoints.steps import Int8
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.integer_products import integer_product
from bertscope_service.encoders.torch.loading import load_encoder
from numpy.typing import NDArray

from tests.support.compressed import make
from tests.support.family import THREE
from tests.support.hungry_rows import MIB, engine_with_memory
from tests.support.integer_products import drawn, exact
from tests.support.on_gpu import DEVICE, rows_of, serving, some_gates
from tests.support.reference import Subject, assert_close
from tests.support.tiny import SENTENCES

ROUNDING = {"bf16": 2**-8, "fp16": 2**-11}


@pytest.fixture(scope="module", params=THREE)
def subject(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Subject:
    return Subject(request.param, checkpoint(request.param))


@pytest.fixture(scope="module")
def bert(checkpoint: Callable[[str], Path]) -> Subject:
    return Subject("bert", checkpoint("bert"))


def on_gpu(subject: Subject, precision: str = "fp32") -> TorchEncoder:
    return load_encoder(subject.folder, subject.architecture, device=DEVICE, precision=precision)


@pytest.mark.parametrize(("watch", "gated"), [(False, True), (True, False)])
def test_same_numbers_as_on_the_cpu(subject: Subject, watch: bool, gated: bool) -> None:
    gates = some_gates(subject) if gated else None
    found = rows_of(subject.run(subject.sequences, gates, encoder=on_gpu(subject), watch=watch))
    expected = rows_of(subject.run(subject.sequences, gates, watch=watch))
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize(("precision", "watch"), [("bf16", True), ("fp16", False)])
def test_half_precisions_are_close(subject: Subject, precision: str, watch: bool) -> None:
    found = subject.run(subject.sequences, some_gates(subject), encoder=on_gpu(subject, precision), watch=watch)
    for maps in found.maps:
        assert maps.dtype == torch.float32
        assert float((maps.sum(dim=-1) - 1).abs().max()) < 2e-3
    ours = torch.cat([row[-1] for row in rows_of(found)])
    theirs = torch.cat([row[-1] for row in rows_of(subject.run(subject.sequences, some_gates(subject)))])
    assert bool(torch.isfinite(ours).all())
    assert 0 < float((ours - theirs).norm() / theirs.norm()) < 50 * ROUNDING[precision]


@pytest.mark.parametrize(
    ("processor", "shape"), [(DEVICE, (1, 384, 384)), (DEVICE, (33, 3072, 64)), (torch.device("cpu"), (33, 3072, 64))], ids=str
)
def test_products_of_integers_are_exact(processor: torch.device, shape: tuple[int, int, int]) -> None:
    """On the CPU as well: the processor beside a GPU is seldom one that all other tests ran on."""
    steps, matrix = drawn(*shape)
    found = integer_product(processor)(matrix.to(processor))(steps.to(processor, copy=True)).cpu()
    assert torch.equal(found, exact(steps, matrix))


def test_int8_models_run(bert: Subject, tmp_path: Path) -> None:
    small = Subject("bert", make(bert.folder, tmp_path / "int8", Int8()))
    found, expected = (
        rows_of(small.run(small.sequences, encoder=encoder)) for encoder in (on_gpu(small), small.load(pack=True))
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert float(torch.cosine_similarity(ours[-1].cpu().flatten(), theirs[-1].flatten(), dim=0)) > 0.999


async def fill(channel: Any, **request: Any) -> Any:
    from bertscope.v1 import cloze_pb2, cloze_pb2_grpc

    reply = await cloze_pb2_grpc.ClozeServiceStub(channel).FillMask(cloze_pb2.FillMaskRequest(**request))
    assert reply.provenance.device == str(DEVICE)
    return reply


async def extract(channel: Any, texts: Sequence[str], **request: Any) -> list[NDArray[np.float32]]:
    """The maps of each text, put together from their chunks."""
    from bertscope.v1 import attention_pb2, attention_pb2_grpc, common_pb2

    from tests.support.harness import read_maps

    inputs = [common_pb2.TextInput(text=text) for text in texts]
    call = attention_pb2_grpc.AttentionServiceStub(channel).ExtractAttention(
        attention_pb2.ExtractAttentionRequest(inputs=inputs, **request)
    )
    return [maps.values for maps in read_maps([event async for event in call])]


TEXTS = [text.replace("the", "[MASK]", 1) if "the" in text else f"{text} [MASK]" for text in SENTENCES[:-1]]


def test_answers_under_load_are_those_of_one_call_at_a_time(bert: Subject) -> None:
    """Hundreds of calls of all kinds at once, while one batch runs and the next is launched; in bf16 by graphs, without
    padding. Kernels for other sizes round elsewhere."""
    precision, bound = "bf16", 0.1
    from bertscope.v1 import common_pb2

    zero = [common_pb2.HeadIntervention(layer=1, heads=[0, 2], mode=common_pb2.HeadIntervention.MODE_ZERO)]

    async def ask(channel: Any, number: int) -> list[float]:
        text = TEXTS[number % len(TEXTS)]
        if number % 4 == 0:
            return [float(value) for maps in await extract(channel, [text]) for value in maps.ravel()]
        extra = {"interventions": zero} if number % 4 == 1 else {}
        choice = {"candidates": ["cat", "unplayable"]} if number % 4 == 2 else {"top_k": 5}
        reply = await fill(channel, texts=[text], **choice, **extra)
        return [p.log_probability for mask in reply.results[0].masks for p in mask.predictions]

    async def run() -> None:
        kinds = 4 * len(TEXTS)
        async with serving(bert.folder, precision=precision, max_streams=8 * kinds, queue_seconds=600) as channel:
            expected = [await ask(channel, number) for number in range(kinds)]
            found = await asyncio.gather(*(ask(channel, number) for number in range(8 * kinds)))
        for number, answer in enumerate(found):
            assert answer == pytest.approx(expected[number % kinds], abs=bound)
        # The three kinds of fill_mask differ, or mixed-up answers would go unnoticed.
        assert expected[1] != pytest.approx(expected[1 + 4], abs=bound)

    asyncio.run(run())


def test_a_batch_that_does_not_fit_is_halved(bert: Subject) -> None:
    """Eight rows of 2 x 100 MiB where 600 MiB are free: what the whole batch took first must be gone when its halves run."""

    async def run() -> None:
        async with engine_with_memory(on_gpu(bert), 600 * MIB) as ask:
            (alone,) = await ask([MIB])
            assert await ask([100 * MIB] * 8) == pytest.approx([alone] * 8, abs=1e-4)

    asyncio.run(run())


def test_a_row_that_does_not_fit_is_refused(bert: Subject) -> None:
    from bertscope_service.errors import Overloaded

    async def run() -> None:
        async with engine_with_memory(on_gpu(bert), 300 * MIB) as ask:
            with pytest.raises(Overloaded) as caught:
                await ask([400 * MIB])
            assert caught.value.reason == "DEVICE_MEMORY"
            assert len(await ask([MIB] * 3)) == 3

    asyncio.run(run())
