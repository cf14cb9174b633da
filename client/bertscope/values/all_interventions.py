"""Builds the messages of interventions: those on heads, and changes at sites, which a caller gives as one list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bertscope.errors import invalid_argument
from bertscope.v1 import common_pb2
from bertscope.values import validation
from bertscope.values.changes import SiteIntervention, site_message
from bertscope.values.interventions import HeadIntervention
from bertscope.values.messages import names_of_values

Interventions = HeadIntervention | SiteIntervention | Iterable[HeadIntervention | SiteIntervention]
"""One intervention on heads or one change at a site, or many of either."""
MODES = names_of_values(common_pb2.HeadIntervention.Mode.DESCRIPTOR)


def intervention_fields(interventions: Interventions) -> dict[str, Any]:
    """Returns the fields of a request that interventions go into: those on heads, which act first, and those at sites."""
    if isinstance(interventions, tuple) and not interventions:
        return {}
    if isinstance(interventions, HeadIntervention | SiteIntervention):
        interventions = [interventions]
    heads, sites = [], []
    for index, value in enumerate(validation.many("interventions", interventions, "interventions")):
        if isinstance(value, SiteIntervention):
            sites.append(site_message(value))
        elif isinstance(value, HeadIntervention):
            mode, factor = MODES[value.mode], value.factor
            heads.append(common_pb2.HeadIntervention(layer=value.layer, heads=value.heads, mode=mode, scale=factor))
        else:
            made = "bertscope.zero, uniform, mean, scale, scale_site, set_site, add, erase, patch, mean_site or block_attention"
            raise invalid_argument(f"interventions[{index}]", f"must be made by {made}")
    return {"interventions": heads, "site_interventions": sites}
