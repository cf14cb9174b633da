"""Requests of SweepSites that are refused, each for a reason and with the field that a caller can change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import ablation_sites_pb2 as sites
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import site_pb2, target_pb2
from bertscope_service.analyses import site_sweep

from tests.support.harness import CALL_SECONDS, Host, refused

Scope = sites.SiteScope
TEXT = "The cat [MASK] on the mat."
TARGET = target_pb2.Target(mask=target_pb2.MaskTarget(answer="the"))
STATES = [Scope(site=site_pb2.SITE_STATE)]
TWICE = site_pb2.SiteChange(scale=2.0)


def spans(*ends: tuple[int, int]) -> site_pb2.CharacterSpans:
    return site_pb2.CharacterSpans(spans=[common.CharacterSpan(start=start, end=end) for start, end in ends])


def pair(**fields: Any) -> sites.PatchedPair:
    return sites.PatchedPair(**{"clean": common.TextInput(text=TEXT), "target": TARGET} | fields)


def scope(site: int, **fields: Any) -> Sequence[sites.SiteScope]:
    return [Scope(site=site, **fields)]  # type: ignore[arg-type]


def vector(shape: Sequence[int]) -> common.Tensor:
    return common.Tensor(dtype=common.DATA_TYPE_FLOAT32, shape=shape, data=np.ones(shape, "<f4").tobytes())


MASKED = pair(masked=spans((4, 7)))
NAMED = sites.PositionGroup(name="a", spans=spans((4, 7)))
EACH = Scope.UNITS_EACH
HEADS, NEURONS, STATE = site_pb2.SITE_HEAD_OUTPUT, site_pb2.SITE_ACTIVATIONS, site_pb2.SITE_STATE
GROUPS, BREAK = sites.POSITION_SCOPE_GROUPS, sites.PATCH_DIRECTION_BREAK
MANY_DRAWS = pair(noise=sites.EmbeddingNoise(spans=spans((4, 7)), samples=100))
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no scope": ({"scopes": []}, "scopes", "UNKNOWN_SITE"),
    "no corruption": ({"pairs": [MASKED, pair()]}, "pairs[1]", "CORRUPTION_MISSING"),
    "another length": (
        {"pairs": [pair(corrupted=common.TextInput(text="A cat."))]},
        "pairs[0].corrupted",
        "CORRUPTION_MISSING",
    ),
    "nothing masked": ({"pairs": [pair(masked=spans((3, 4)))]}, "pairs[0].masked.spans[0]", "NO_PIECE"),
    "beyond the text": ({"pairs": [pair(masked=spans((4, 99)))]}, "pairs[0].masked.spans[0].end", "SPAN_OUT_OF_RANGE"),
    "no noise": (
        {"pairs": [pair(noise=sites.EmbeddingNoise(spans=spans((3, 4))))]},
        "pairs[0].noise.spans.spans[0]",
        "NO_PIECE",
    ),
    "an empty group": (
        {
            "pairs": [pair(masked=spans((4, 7)), groups=[sites.PositionGroup(name="a", spans=spans((3, 4)))])],
            "positions": GROUPS,
        },
        "pairs[0].groups[0].spans.spans[0]",
        "NO_PIECE",
    ),
    "a group twice": ({"pairs": [pair(masked=spans((4, 7)), groups=[NAMED, NAMED])]}, "pairs[0].groups[1].name", "DUPLICATE"),
    "no groups": ({"positions": GROUPS}, "pairs[0].groups", "EMPTY_POSITIONS"),
    "no such layer": ({"scopes": scope(HEADS, layers=[0, 4])}, "scopes[0].layers[1]", "LAYER_OUT_OF_RANGE"),
    "no such state": ({"scopes": scope(STATE, layers=[5])}, "scopes[0].layers[0]", "LAYER_OUT_OF_RANGE"),
    "no such head": ({"scopes": scope(HEADS, units=[4])}, "scopes[0].units[0]", "HEAD_OUT_OF_RANGE"),
    "units of a state": ({"scopes": scope(STATE, units=[0])}, "scopes[0].units", "CHANGE_UNUSABLE"),
    "each of a state": ({"scopes": scope(STATE, each=EACH)}, "scopes[0].each", "CHANGE_UNUSABLE"),
    "a place twice": ({"scopes": [*STATES, *scope(STATE, layers=[1])]}, "scopes[1]", "DUPLICATE"),
    "other heads together": ({"scopes": [*scope(HEADS, units=[0]), *scope(HEADS, units=[1])]}, "scopes[1]", "DUPLICATE"),
    "too many draws": ({"pairs": [MANY_DRAWS] * 1000}, "pairs", "TOO_MANY_ITEMS"),
    "no memory": ({"memory_bytes": 10}, "memory_bytes", "MEMORY_TOO_SMALL"),
    "more memory than there is": ({"memory_bytes": 2**60}, "memory_bytes", "MEMORY_OUT_OF_RANGE"),
    "a change of a pair": ({"change": TWICE}, "pairs[0].masked", "CHANGE_UNUSABLE"),
    "a change and a direction": ({"pairs": [pair()], "change": TWICE, "direction": BREAK}, "direction", "CHANGE_UNUSABLE"),
    "an empty change": ({"pairs": [pair()], "change": site_pb2.SiteChange()}, "change", "CHANGE_MISSING"),
    "a source": (
        {"pairs": [pair()], "change": site_pb2.SiteChange(source=site_pb2.SiteSource(input=common.TextInput(text=TEXT)))},
        "change",
        "CHANGE_UNUSABLE",
    ),
    "vectors by position": (
        {"pairs": [pair()], "change": site_pb2.SiteChange(set=vector([2, 32]))},
        "change",
        "POSITIONS_MISMATCH",
    ),
    "a vector of another size": (
        {"pairs": [pair()], "change": site_pb2.SiteChange(set=vector([31]))},
        "change.set.shape",
        "VECTOR_SIZE",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(host: Host, name: str) -> None:
    fields, field, reason = REFUSED[name]
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        sweep(host, **({"pairs": [MASKED], "scopes": STATES} | fields))
    assert (failures[0].info.reason, failures[0].fields) == (reason, [field])


def test_too_many_changes_say_what_is_large(host: Host) -> None:
    """Neurons of all layers at each of many tokens."""
    long = common.TextInput(text=TEXT + " a" * 50)
    asked = sites.PatchedPair(clean=long, masked=spans((4, 7)), target=TARGET)
    scopes = [Scope(site=NEURONS, each=EACH)]
    assert len(sweep(host, pairs=[MASKED], scopes=[Scope(site=NEURONS, layers=[0], each=EACH)])) == 2 + 48 * 9
    with pytest.MonkeyPatch.context() as patch, refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        patch.setattr(site_sweep, "MAX_CHANGES", 10_000)
        sweep(host, pairs=[asked], scopes=scopes)
    assert failures[0].info.reason == "TOO_MANY_CHANGES"
    assert "192 units in 4 layers" in failures[0].message


def sweep(host: Host, **fields: Any) -> list[sites.SweepSitesResponse]:
    return list(host.ablation.SweepSites(sites.SweepSitesRequest(**fields), timeout=CALL_SECONDS))
