"""The sites of a model: which layers and units have one, and how large its vectors are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.api.checks import check_number, check_numbers
from bertscope_service.encoders.base import ChangesSites
from bertscope_service.encoders.sites import Site
from bertscope_service.errors import InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadedModel

WITH_UNITS = (Site.HEAD_OUTPUT, Site.ACTIVATIONS, Site.ATTENTION)


@dataclass(frozen=True, slots=True)
class ModelSites:
    """The sites of a model that requests name. Its methods raise InvalidArgument for what is not there, and Unsupported for
    what the model does not show, or can't change."""

    model: LoadedModel

    def check(self, site: Site, layer: int, field: str) -> None:
        """Checks that a site of a layer is there, and can be changed."""
        self.check_layer(site, layer, field)
        if why := self.encoder(field).site_refusal(site, min(layer, self.model.encoder.shape.layers - 1)):
            raise Unsupported(f"{self.model.name} can't change its {site.value}: {why}", "SITE_UNSUPPORTED")

    def check_layer(self, site: Site, layer: int, field: str) -> None:
        """Checks that a layer is there."""
        check_number(layer, field, "layer", self.model.encoder.shape.layers + (site is Site.STATE), self.model.name)

    def encoder(self, field: str) -> ChangesSites:
        """Returns the model's encoder, which must change sites."""
        encoder = self.model.encoder
        if not isinstance(encoder, ChangesSites):
            raise Unsupported(f"{self.model.name} can't change its sites ({field}); load another model", "SITE_UNSUPPORTED")
        return encoder

    def sizes(self, site: Site, field: str) -> tuple[int, int]:
        """Returns the numbers of a unit of a site, and of its whole vector."""
        encoder, shape = self.encoder(field), self.model.encoder.shape
        if site is Site.HEAD_OUTPUT:
            return encoder.head_size, encoder.head_size * shape.heads
        size = encoder.site_size(site)
        if size is None:
            raise Unsupported(
                f"{self.model.name} does not show its {site.value}; load it with runtime torch", "SITE_UNSUPPORTED"
            )
        return (1 if site is Site.ACTIVATIONS else size), size

    def units(self, site: Site, numbers: Sequence[int], field: str) -> NDArray[np.int64] | None:
        """Returns the units that are named, None for all."""
        if not numbers:
            return None
        if site not in WITH_UNITS:
            message = f"{field} are for heads and activations, and the {site.value} has no parts; leave them out"
            raise InvalidArgument(field, message, "CHANGE_UNUSABLE")
        heads = site is not Site.ACTIVATIONS
        count = self.model.encoder.shape.heads if heads else self.sizes(site, field)[1]
        check_numbers(numbers, field, "head" if heads else "activation", count, self.model.name)
        return np.array(numbers, dtype=np.int64)
