"""AttributeWords with `site` through gRPC: what the reply has, and what is refused."""

from typing import Any

import numpy as np
import pytest
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import common_pb2, site_pb2

from tests.support.calls import call
from tests.support.harness import Host

NEURONS, HEADS = site_pb2.SITE_ACTIVATIONS, site_pb2.SITE_HEAD_OUTPUT
TEXT = {"text": "the [MASK] sat on the mat", "target": {"mask": {"answer": "cat"}}}


def ask(host: Host, site: int, *layers: int, top: int | None = None, positions: Any = None, **fields: Any) -> Any:
    asked = {"site": site, "layers": layers, "top": top, "positions": positions}
    return call(host, "AttributeWords", inputs=[TEXT], site=asked, **fields)


@pytest.mark.slow
@pytest.mark.parametrize("site", [NEURONS, HEADS])
def test_the_largest_shares_and_the_sums_of_layers(host: Host, site: site_pb2.Site) -> None:
    response = ask(host, site, 3, 1, top=10_000, tolerance=0.001)
    (found,) = response.results
    assert response.method == attribution.ATTRIBUTION_METHOD_INTEGRATED_GRADIENTS
    assert response.absent == attribution.ABSENT_TEXT_UNSPECIFIED
    assert response.provenance.runtime == common_pb2.RUNTIME_TORCH
    assert not found.units
    assert not found.values
    assert {one.position for one in found.site_units} == {2}  # the mask
    assert {one.layer for one in found.site_units} == {1, 3}
    absolute = [abs(one.value) for one in found.site_units]
    assert absolute == sorted(absolute, reverse=True)
    assert found.completeness_error <= 0.001
    for layer, total, absent in zip((1, 3), found.layer_sums, found.layer_values_absent, strict=True):
        assert total == pytest.approx(sum(one.value for one in found.site_units if one.layer == layer), rel=1e-9)
        assert total == pytest.approx(found.value - absent, abs=0.001 * max(abs(found.value - absent), sum(absolute)))
    assert found.steps in (10, 30, 90, 270, 810)
    (few,) = ask(host, site, 1, 3).results
    assert len(few.site_units) == min(20, len(found.site_units))
    assert [one.unit for one in few.site_units[:3]] == [one.unit for one in found.site_units[:3]]


def test_all_units_at_zero_are_a_change_that_sets_the_number(host: Host) -> None:
    """layer_values_absent is what silencing the units gives."""
    positions = {"tokens": {"tokens": [1, 2]}}
    (found,) = ask(host, NEURONS, 2, positions=positions).results
    silent = {"site": NEURONS, "layer": 2, "positions": positions, "change": {"scale": 0}}
    (other,) = ask(host, NEURONS, 0, site_interventions=[silent]).results
    assert found.layer_values_absent[0] == pytest.approx(other.value, abs=1e-4)
    assert {one.position for one in found.site_units} <= {1, 2}


def test_one_gradient_is_enough_for_a_preview(host: Host) -> None:
    response = ask(host, NEURONS, method=attribution.ATTRIBUTION_METHOD_GRADIENT)
    (found,) = response.results
    assert response.method == attribution.ATTRIBUTION_METHOD_GRADIENT
    assert found.steps == 0
    assert len(found.layer_sums) == 4
    assert found.evaluations == 1 + 4 * 2
    assert np.isfinite([one.value for one in found.site_units]).all()


@pytest.mark.parametrize("site", [NEURONS, HEADS])
def test_shares_are_of_the_model_with_its_changes(host: Host, site: site_pb2.Site) -> None:
    """Attention that is blocked, and a state that is changed, change the number and its shares."""
    blocked = {"site": site_pb2.SITE_ATTENTION, "layer": 2, "change": {"block": {"kind": site_pb2.Positions.KIND_FIRST}}}
    scaled = {"site": site_pb2.SITE_STATE, "layer": 1, "change": {"scale": 0.5}}
    (plain,) = ask(host, site, 1, 3).results
    for change in (blocked, scaled):
        (found,) = ask(host, site, 1, 3, site_interventions=[change], tolerance=0.001).results
        assert abs(found.value - plain.value) > 1e-4
        for total, absent in zip(found.layer_sums, found.layer_values_absent, strict=True):
            assert total == pytest.approx(found.value - absent, abs=0.02 * max(abs(found.value - absent), abs(total)))
