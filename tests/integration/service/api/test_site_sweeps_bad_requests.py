"""A bound of SweepSites; what else it refuses is in tests/samples/SweepSites.json."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from bertscope.v1 import ablation_sites_pb2 as sites
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import site_pb2, target_pb2
from bertscope_service.analyses import site_sweep

from tests.support.harness import CALL_SECONDS, Host, refused

Scope = sites.SiteScope
TEXT = "The cat [MASK] on the mat."
TARGET = target_pb2.Target(mask=target_pb2.MaskTarget(answer="the"))


def spans(*ends: tuple[int, int]) -> site_pb2.CharacterSpans:
    return site_pb2.CharacterSpans(spans=[common.CharacterSpan(start=start, end=end) for start, end in ends])


def pair(**fields: Any) -> sites.PatchedPair:
    return sites.PatchedPair(**{"clean": common.TextInput(text=TEXT), "target": TARGET} | fields)


MASKED = pair(masked=spans((4, 7)))
EACH = Scope.UNITS_EACH
NEURONS = site_pb2.SITE_ACTIVATIONS


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
