"""Makes head interventions, contributions of heads in place of their own context vector c = A V; and messages of all changes.

Layers and heads count from 0. An intervention acts before a layer's output projection, on every text of a request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex, get_args

from bertscope.errors import invalid_argument
from bertscope.v1 import common_pb2
from bertscope.values import validation
from bertscope.values.changes import SiteIntervention, site_message
from bertscope.values.choices import Mode
from bertscope.values.messages import names_of_values
from bertscope.values.validation import Heads, finite_number, heads_or_all, uint32

__all__ = ["HeadIntervention", "mean", "scale", "uniform", "zero"]

MODES: tuple[Mode, ...] = get_args(Mode)
MODE_NUMBERS = names_of_values(common_pb2.HeadIntervention.Mode.DESCRIPTOR)


@dataclass(frozen=True)
class HeadIntervention:
    """One intervention on heads of one layer; made by `zero`, `uniform`, `mean` and `scale`."""

    layer: int
    """0 to the model's layers - 1."""
    heads: tuple[int, ...] | None
    """Each 0 to the model's heads - 1, none twice; None means every head of the layer."""
    mode: Mode
    """The contribution of the heads."""
    factor: float | None = None
    """Factor of mode "scale", -1000 to 1000; None for the other modes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer", uint32("layer", self.layer))
        object.__setattr__(self, "heads", heads_or_all("heads", self.heads))
        if self.mode not in MODES:
            raise invalid_argument("mode", f"must be one of {', '.join(MODES)}, not {self.mode!r}")
        if (self.mode == "scale") != (self.factor is not None):
            raise invalid_argument("factor", 'is required for mode "scale" and must be left out otherwise')
        if self.factor is not None:
            object.__setattr__(self, "factor", finite_number("factor", self.factor))


def zero(layer: SupportsIndex, heads: Heads = None) -> HeadIntervention:
    """Makes heads add nothing: c := 0. `heads=None` means all heads of the layer.

    >>> zero(layer=3, heads=[1, 4])
    HeadIntervention(layer=3, heads=(1, 4), mode='zero', factor=None)
    """
    return HeadIntervention(uint32("layer", layer), heads_or_all("heads", heads), "zero")


def uniform(layer: SupportsIndex, heads: Heads = None) -> HeadIntervention:
    """Makes heads attend to every token alike: c := mean of V over the real tokens (Kovaleva et al. 2019, section 4.6).

    >>> uniform(layer=5)
    HeadIntervention(layer=5, heads=None, mode='uniform', factor=None)
    """
    return HeadIntervention(uint32("layer", layer), heads_or_all("heads", heads), "uniform")


def mean(layer: SupportsIndex, heads: Heads = None) -> HeadIntervention:
    """Makes heads add a constant: c := the mean of c over all tokens of the call's `reference_texts`, which it needs.

    >>> mean(layer=2, heads=[0])
    HeadIntervention(layer=2, heads=(0,), mode='mean', factor=None)
    """
    return HeadIntervention(uint32("layer", layer), heads_or_all("heads", heads), "mean")


def scale(layer: SupportsIndex, heads: Heads = None, *, factor: float) -> HeadIntervention:
    """Multiplies the heads' contribution: c := factor * c, factor -1000 to 1000.

    >>> scale(layer=0, heads=2, factor=0.5)
    HeadIntervention(layer=0, heads=(2,), mode='scale', factor=0.5)
    """
    return HeadIntervention(uint32("layer", layer), heads_or_all("heads", heads), "scale", factor)


Interventions = HeadIntervention | SiteIntervention | Iterable[HeadIntervention | SiteIntervention]
"""One intervention on heads or one change at a site, or many of either."""


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
            mode, factor = MODE_NUMBERS[value.mode], value.factor
            heads.append(common_pb2.HeadIntervention(layer=value.layer, heads=value.heads, mode=mode, scale=factor))
        else:
            made = "bertscope.zero, uniform, mean, scale, scale_site, set_site, add, erase, patch, mean_site or block_attention"
            raise invalid_argument(f"interventions[{index}]", f"must be made by {made}")
    return {"interventions": heads, "site_interventions": sites}
