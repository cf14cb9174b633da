"""Trainings give the same whether their states are in memory or in a file, and however many probes a step has."""

from typing import Any

import grpc
import numpy as np
import pytest
from bertscope_service.probing import training
from numpy.typing import NDArray

from tests.support import erasers, probes
from tests.support.calls import RPCS
from tests.support.harness import Host, refused
from tests.support.limits import limit_sizes
from tests.support.patience import granted
from tests.support.reply_numbers import numbers_of

TEXTS = {name: [text.input for text in part] for name, part in (("train", probes.TRAIN), ("dev", probes.DEV))}
CHAINS = {
    name: [
        {"input": text.input, "words": [{"span": word.span, "head": place} for place, word in enumerate(text.spans)]}
        for text in part
    ]
    for name, part in (("train", probes.TRAIN), ("dev", probes.DEV), ("test", probes.TEST))
}
"""Sentences in which each word depends on the one before."""


def valued(part: list[Any]) -> list[dict[str, Any]]:
    """Sentences whose words have numbers: that of the class, moved by their places."""
    spans = ([{"span": one.span, "value": 3 * one.label + place} for place, one in enumerate(text.spans)] for text in part)
    return [{"input": text.input, "spans": own} for text, own in zip(part, spans, strict=True)]


VALUES: dict[str, Any] = {"train": valued(probes.TRAIN), "dev": valued(probes.DEV), "test": valued(probes.TEST), "labels": []}
CASES: dict[str, tuple[str, Any]] = {
    "seeds": ("TrainProbe", probes.request(seeds=2)),
    "mixes": ("TrainProbe", probes.request(mix=True)),
    "numbers": ("TrainProbe", probes.request(**VALUES, ending=probes.request().ENDING_MINIMUM, max_epochs=0)),
    "leace": ("TrainEraser", erasers.request(layers=[1, 3])),
    "inlp": ("TrainEraser", erasers.request(layers=[1, 3], method="METHOD_INLP", rank=4)),
    **{
        quantity: (
            "TrainStructuralProbe",
            RPCS["TrainStructuralProbe"].request(**CHAINS, quantity=f"QUANTITY_{quantity}", seeds=2, max_epochs=3, rank=8),
        )
        for quantity in ("DISTANCE", "DEPTH")
    },
    "codes": ("TrainCodes", RPCS["TrainCodes"].request(**TEXTS, layer=2, codes=24, active=4, epochs=2, weights=True)),
    "lens": ("TrainLens", RPCS["TrainLens"].request(**TEXTS, max_epochs=2, weights=True)),
}
IN_BLOCKS = ("seeds", "mixes", "numbers", "DISTANCE", "DEPTH", "lens")


def train(host: Host, name: str, **changed: Any) -> tuple[bool, NDArray[np.float64]]:
    """Returns whether states were in a file, and all numbers of the replies."""
    rpc, usual = CASES[name]
    request = type(usual)()
    request.CopyFrom(usual)
    for field, value in changed.items():
        setattr(request, field, value)
    data = host.ask(RPCS[rpc], request.SerializeToString(), timeout=granted(60))
    replies = [RPCS[rpc].response.FromString(one) for one in data]
    (report,) = (one.report for one in replies if one.HasField("report"))
    return report.on_disk, numbers_of(replies)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_states_in_a_file_give_the_same_and_another_seed_does_not(host: Host, name: str) -> None:
    on_disk, numbers = train(host, name)
    assert not on_disk
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        train(host, name, memory_bytes=1)
    assert failures[0].info.reason == "MEMORY_TOO_SMALL"
    on_disk, found = train(host, name, memory_bytes=int(failures[0].info.metadata["needed"]))
    assert on_disk
    np.testing.assert_allclose(found, numbers, rtol=1e-6)
    assert train(host, name, seed=4)[1].tolist() != numbers.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_BLOCKS)
def test_blocks_train_the_same(host: Host, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A block for each probe or layer, and one for all."""
    _, whole = train(host, name)
    limit_sizes(monkeypatch, minimised_values=1, updated_values=1, vocabulary_products=1)
    monkeypatch.setattr(training, "MOST", 1)
    _, blocks = train(host, name)
    np.testing.assert_allclose(blocks, whole, rtol=1e-2, atol=5e-3)
