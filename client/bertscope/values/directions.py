"""Describes directions at sites, whose values at words are searched for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, SupportsIndex

from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.changes import SITES
from bertscope.values.choices import Site
from bertscope.values.display import record
from bertscope.values.vectors import float32s

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["SiteDirection"]


@record(eq=False)
class SiteDirection:
    """A direction v at a site. Its value at a word whose vector is x is x . v + bias, or the cosine of x and v; 0 where that is
    not over the threshold, as the activation of a sparse code is.

    >>> SiteDirection("plural", 4, [0.5, -0.5]).vector
    array([ 0.5, -0.5], dtype=float32)
    """

    name: str
    """Its name, for tables."""
    layer: SupportsIndex
    """Layer of the site; of "state" 0, the embeddings, to the number of layers."""
    vector: npt.ArrayLike
    """v, finite, [size]; of the site "heads" that of all heads of the layer, side by side."""
    site: Site = "state"
    """Where x is: "state", "heads", "attention", "neurons" or "feed_forward"."""
    bias: float = 0.0
    """A number that is added to the product; 0 with `cosine`."""
    threshold: float | None = None
    """Values up to it are 0; None leaves all as they are."""
    cosine: bool = False
    """True: the cosine in place of the product."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent."""
        if not validation.text("name", self.name):
            raise invalid_argument("name", "is empty; name the direction")
        validation.choice("site", self.site, SITES)
        if validation.flag("cosine", self.cosine) and self.bias:
            raise invalid_argument("bias", "goes with products; a cosine has none, so leave it out")
        threshold = None if self.threshold is None else validation.finite_number("threshold", self.threshold)
        validation.keep(
            self,
            layer=validation.uint32("layer", self.layer),
            vector=float32s("vector", self.vector, "numbers [size]", 1),
            bias=validation.finite_number("bias", self.bias),
            threshold=threshold,
        )

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """The vector, float32 [size]."""
        return self.vector  # type: ignore[return-value]  # made so when it was checked


def directions_of(given: SiteDirection | Iterable[SiteDirection]) -> list[SiteDirection]:
    """Returns one direction or many as a list. Raises InvalidArgument for anything else, and for a name that comes twice."""
    found, seen = validation.instances("directions", given, SiteDirection), set[str]()
    for index, one in enumerate(found):
        if one.name in seen:
            raise invalid_argument(f"directions[{index}]", f"is named {one.name!r}, as another one; give each its own name")
        seen.add(one.name)
    return found
