"""FindContexts through gRPC: its replies are bounded, and a search is no burden to other callers."""

from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import attention_relations_pb2 as relations
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import representation_contexts_pb2 as contexts
from bertscope.v1 import site_pb2 as sites
from bertscope_service.analyses import contexts as plans
from bertscope_service.api import context_units

from tests.support.harness import CALL_SECONDS, Host, held, interactive_rows_wait, refused
from tests.support.patience import wait_until
from tests.support.tiny import SENTENCES

INVALID = grpc.StatusCode.INVALID_ARGUMENT
SIZE, LAYERS, HEADS = 32, 4, 4
Request = contexts.FindContextsRequest


def text_of(text: str, number: int = 0, **fields: Any) -> contexts.ContextText:
    return contexts.ContextText(text=relations.RelationText(input=common.TextInput(text=text), **fields), id=number)


TEXTS = [text_of(text, number) for number, text in enumerate(SENTENCES)]
EVERY: dict[str, Any] = {"heads": contexts.HeadUnits(), "activations": contexts.ActivationUnits()}


def tensor(*shape: int, value: float = 1.0) -> common.Tensor:
    data = np.full(shape, value, "<f4").tobytes()
    return common.Tensor(dtype=common.DATA_TYPE_FLOAT32, shape=shape, data=data)


def direction(**fields: Any) -> contexts.DirectionUnits:
    return contexts.DirectionUnits(**{"site": sites.SITE_STATE, "vectors": tensor(1, SIZE)} | fields)


def heads(*given: tuple[int, list[int]]) -> contexts.HeadUnits:
    return contexts.HeadUnits(heads=[common.LayerHeads(layer=layer, heads=numbers) for layer, numbers in given])


def find(host: Host, **fields: Any) -> list[contexts.FindContextsResponse]:
    request = Request(**{"texts": TEXTS} | fields)
    return list(host.representation.FindContexts(request, timeout=CALL_SECONDS))


def test_requests_are_bounded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_units, "MAX_DIRECTION_BYTES", 4 * SIZE)
    find(host, directions=[direction()])
    with refused(INVALID) as failures:
        find(host, directions=[direction(), direction(layer=1)])
    assert (failures[0].fields, failures[0].info.reason) == (["directions"], "VECTORS_TOO_LARGE")
    monkeypatch.setattr(plans, "MAX_BYTES", 10_000)
    with refused(INVALID) as failures:
        find(host, **EVERY)
    assert (failures[0].fields, failures[0].info.reason) == (["best"], "CONTEXTS_TOO_LARGE")
    find(host, heads=heads((0, [1])), best=1, sample=1)


@pytest.mark.slow
def test_an_interactive_call_waits_for_one_batch(host: Host) -> None:
    with held(host) as gate:
        many = [text_of(SENTENCES[-1], number) for number in range(400)]
        call = host.representation.FindContexts(Request(texts=many, **EVERY), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the first batch is at the device")
        asked = host.cloze.FillMask.future(cloze.FillMaskRequest(texts=["The cat [MASK]."]), timeout=CALL_SECONDS)
        wait_until(lambda: interactive_rows_wait(host), "the other call's row waits")
        before = gate.arrived
        gate.let_through(1)
        wait_until(lambda: gate.arrived > before, "the next batch is at the device")
        assert not interactive_rows_wait(host)
        gate.let_through()
        assert asked.result().results
        found = list(call)
    summary = next(one.summary for one in found if one.HasField("summary"))
    assert summary.texts == len(many)
    assert [one.progress.done for one in found if one.HasField("progress")][-1] == len(many)


@pytest.mark.slow
def test_a_reply_has_every_unit_once(host: Host) -> None:
    found = find(host, directions=[direction(layer=LAYERS), direction(cosine=True)], **EVERY)
    kinds = ["progress", "summary", "words", "units"]
    order = [kinds.index(str(one.WhichOneof("event"))) for one in found]
    assert order == sorted(order)
    units = [one.units for one in found if one.HasField("units")]
    heads_found = [(one.layer, unit) for one in units if one.kind == contexts.ContextUnits.KIND_HEAD for unit in one.units]
    layers = sorted({layer for layer, _ in heads_found})
    assert sorted(heads_found) == [(layer, head) for layer in layers for head in range(HEADS)]
    directions = [one.layer for one in units if one.kind == contexts.ContextUnits.KIND_DIRECTION]
    assert directions == [0, 1]
