"""Quantities beyond weights through gRPC, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bertscope_service.analyses.layer_steps
import grpc
import numpy as np
import pytest
from bertscope.v1 import attention_statistics_pb2 as statistics
from numpy.typing import NDArray

from tests.support.calls import call, refusal
from tests.support.harness import Host, Maps, read_maps
from tests.support.tiny import write_checkpoint

Quantity = statistics.AttentionQuantity
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED
TEXTS = ("The cat sat.", "The nurse told the doctor that her patient had been waiting.", "The old man and his dog walked.")
INPUTS = [{"text": text} for text in TEXTS]
OF_HEADS = (statistics.ATTENTION_QUANTITY_WEIGHTS, statistics.ATTENTION_QUANTITY_NORMS)
OF_LAYERS = tuple(number for number in Quantity.values() if number and number not in OF_HEADS)


def extract(host: Host, **fields: Any) -> list[Maps]:
    return read_maps(call(host, "ExtractAttention", **{"inputs": INPUTS} | fields))


def rolled_out(weights: NDArray[Any]) -> NDArray[np.float64]:
    product, found = np.eye(weights.shape[-1]), []
    for maps in weights.astype(np.float64):
        mixed = (maps.mean(axis=0) + np.eye(len(product))) / 2
        product = mixed / mixed.sum(axis=1, keepdims=True) @ product
        found.append(product)
    return np.stack(found)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("quantity", OF_LAYERS)
def test_a_layer_has_one_map(host: Host, quantity: int) -> None:
    for maps in extract(host, quantity=quantity, layers=[3, 1]):
        length = len(maps.header.tokens)
        assert list(maps.header.attention.shape) == [2, 1, length, length]
        assert (list(maps.header.layers), list(maps.header.heads)) == ([3, 1], [0])
        assert maps.header.quantity == quantity
        assert np.isfinite(maps.values).all()


@pytest.mark.parametrize("step_bytes", [1, 1 << 24])
def test_a_rollout_goes_on_from_step_to_step(host: Host, monkeypatch: pytest.MonkeyPatch, step_bytes: int) -> None:
    monkeypatch.setattr(bertscope_service.analyses.layer_steps, "STEP_BYTES", step_bytes)
    found = extract(host, quantity=statistics.ATTENTION_QUANTITY_ROLLOUT)
    for maps, weights in zip(found, extract(host), strict=True):
        np.testing.assert_allclose(maps.values, rolled_out(weights.values), rtol=0, atol=1e-5)
        np.testing.assert_allclose(maps.values.sum(-1), 1, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("architecture", "precision", "quantity"),
    [
        ("modernbert", "fp32", statistics.ATTENTION_QUANTITY_LAYER_OUTPUT_NORMS),
        ("modernbert", "fp32", statistics.ATTENTION_QUANTITY_ALTI),
        ("modernbert", "fp32", statistics.ATTENTION_QUANTITY_GLOBENC),
        ("mobilebert", "fp32", statistics.ATTENTION_QUANTITY_LAYER_OUTPUT_NORMS),
        ("bert", "bf16", statistics.ATTENTION_QUANTITY_VALUE_ZEROING),
    ],
)
def test_what_a_model_lacks(
    launch: Callable[..., Host], tmp_path: Path, architecture: str, precision: str, quantity: int
) -> None:
    folder = write_checkpoint(architecture, tmp_path / architecture)
    host = launch(model=[f"other={folder}"], precision=precision, runtime="torch")
    failure = refusal(host, "ExtractAttention", code=UNIMPLEMENTED, inputs=INPUTS, quantity=quantity)
    assert failure.info.reason == "QUANTITY_UNSUPPORTED"
    assert failure.info.metadata["quantity"] == Quantity.Name(quantity).removeprefix("ATTENTION_QUANTITY_").lower()
    extract(host, quantity=statistics.ATTENTION_QUANTITY_NORMS)


@pytest.mark.slow
@pytest.mark.parametrize("quantity", sorted(set(Quantity.values()) - {statistics.ATTENTION_QUANTITY_VALUE_ZEROING}))
def test_a_description_of_a_quantity(host: Host, quantity: int) -> None:
    reply = call(host, "DescribeAttention", inputs=INPUTS, quantity=quantity, layers=[2, 0], head_distances=True)
    assert reply.quantity == (quantity or statistics.ATTENTION_QUANTITY_WEIGHTS)
    assert reply.heads == (1 if quantity in OF_LAYERS else 4)
    maps = 2 * reply.heads
    assert {len(one.sums.sums) for one in reply.statistics} == {maps}
    assert len(reply.head_distances.sums) == maps**2
    assert sum(sum(one.texts) for one in reply.patterns) == maps * len(TEXTS)


def test_a_description_of_value_zeroing(host: Host) -> None:
    zeroing = statistics.ATTENTION_QUANTITY_VALUE_ZEROING
    failure = refusal(host, "DescribeAttention", code=UNIMPLEMENTED, inputs=INPUTS, quantity=zeroing)
    assert failure.info.reason == "QUANTITY_UNSUPPORTED"
