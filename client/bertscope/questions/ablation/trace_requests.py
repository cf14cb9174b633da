"""Builds the request of SweepSites."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.errors import invalid_argument
from bertscope.v1 import ablation_sites_pb2, site_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions
from bertscope.values.changes import SITES, Mean, Scaling, SiteChange
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of

Request = ablation_sites_pb2.SweepSitesRequest
UNITS = ablation_sites_pb2.SiteScope


def sweep_sites_request(
    *,
    model: str | Model | None,
    sites: str | Iterable[str] | None,
    layers: Numbers | None,
    units: Numbers | None,
    each_unit: bool,
    positions: str | None,
    direction: str | None,
    change: SiteChange | float | str | None,
    paths: bool,
    sender_layers: Numbers | None,
    receiver_layers: Numbers | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    memory_bytes: SupportsIndex | None,
) -> Request:
    """Returns the request, without its pairs."""
    ends = {"sender_layers": sender_layers, "receiver_layers": receiver_layers}
    if validation.flag("paths", paths):
        given = {"sites": sites, "layers": layers, "units": units, "positions": positions, "change": change}
        for name, value in (given | {"each_unit": each_unit or None}).items():
            if value is not None:
                raise invalid_argument(name, "must be left out with paths, which have sender_layers and receiver_layers")
    else:
        for name, value in ends.items():
            if value is not None:
                raise invalid_argument(name, "goes with paths=True; for sites, give layers")
    return request_of(
        Request,
        model=model,
        scopes=[] if paths else _scopes(sites, layers, units, each_unit=each_unit),
        paths=request_of(ablation_sites_pb2.PathScope, **ends) if paths else None,
        positions=positions,
        direction=direction,
        change=None if change is None else _change(change),
        interventions=interventions,
        reference_texts=reference_texts,
        memory_bytes=memory_bytes,
    )


def _scopes(
    sites: str | Iterable[str] | None, layers: Numbers | None, units: Numbers | None, *, each_unit: bool
) -> list[ablation_sites_pb2.SiteScope]:
    names = ["state"] if sites is None else validation.texts("sites", sites)
    each = UNITS.UNITS_EACH if validation.flag("each_unit", each_unit) else UNITS.UNITS_TOGETHER
    return [
        ablation_sites_pb2.SiteScope(
            site=validation.choice("sites", name, SITES),
            layers=validation.uint32s("layers", layers),
            each=each,
            units=validation.uint32s("units", units),
        )
        for name in validation.not_empty("sites", names)
    ]


def _change(change: SiteChange | float | str) -> site_pb2.SiteChange:
    if isinstance(change, SiteChange):
        return change.message()
    if change == "mean":
        return Mean().message()
    if isinstance(change, str):
        raise invalid_argument("change", f'must be a factor, "mean" or the change of a site change, not {change!r}')
    return Scaling(validation.finite_number("change", change)).message()
