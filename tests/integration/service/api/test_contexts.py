"""FindContexts through gRPC: a reply has every unit that was asked for, once."""

import pytest

from tests.support.calls import call
from tests.support.harness import Host
from tests.support.tiny import SENTENCES


@pytest.mark.slow
def test_a_reply_has_every_unit_once(host: Host) -> None:
    texts = [{"text": {"input": {"text": text}}, "id": number} for number, text in enumerate(SENTENCES)]
    vectors = {"dtype": "DATA_TYPE_FLOAT32", "shape": [1, 32], "data": b"\0\0\x80?" * 32}
    direction = {"site": "SITE_STATE", "vectors": vectors}
    asked = {"heads": {}, "activations": {}, "directions": [direction | {"layer": 4}, direction | {"cosine": True}]}
    found = call(host, "FindContexts", texts=texts, **asked)
    kinds = ["progress", "summary", "words", "units"]
    order = [kinds.index(one.WhichOneof("event")) for one in found]
    assert order == sorted(order)
    units = [one.units for one in found if one.HasField("units")]
    heads, directions = ([one for one in units if one.kind == getattr(one, f"KIND_{kind}")] for kind in ("HEAD", "DIRECTION"))
    layers = sorted({one.layer for one in heads})
    assert sorted((one.layer, unit) for one in heads for unit in one.units) == [
        (layer, head) for layer in layers for head in range(4)
    ]
    assert [one.layer for one in directions] == [0, 1]
