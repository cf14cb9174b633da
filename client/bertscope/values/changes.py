"""Describes changes and directions at sites: places in each layer where every token has a vector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, SupportsIndex

from bertscope.errors import invalid_argument
from bertscope.v1 import site_pb2
from bertscope.values import validation
from bertscope.values.choices import Site
from bertscope.values.display import record
from bertscope.values.messages import text_input
from bertscope.values.positions import Found, positions_message
from bertscope.values.validation import TextOrPair
from bertscope.values.vectors import float32s, tensor

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["SiteDirection", "SiteIntervention"]

SITES = {
    "state": site_pb2.SITE_STATE,
    "heads": site_pb2.SITE_HEAD_OUTPUT,
    "attention": site_pb2.SITE_ATTENTION_OUTPUT,
    "neurons": site_pb2.SITE_ACTIVATIONS,
    "feed_forward": site_pb2.SITE_FEED_FORWARD_OUTPUT,
}
"""Sites with vectors, by the names of `bertscope.Site`."""
EDGES = "attention_weights"
"""The site of `block_attention`, which has weights and no vectors."""
WITH_UNITS = ("heads", "neurons")
"""Sites with vectors of which some units can change alone."""


class Eraser(Protocol):
    """A projection that takes a subspace away."""

    @property
    def left(self) -> npt.ArrayLike:
        """[size, rank]."""

    @property
    def right(self) -> npt.ArrayLike:
        """[rank, size]."""

    @property
    def mean(self) -> npt.ArrayLike | None:
        """[size]; None means zeros."""


class SiteChange:
    """Describes what happens to the vectors at a site."""

    def message(self) -> site_pb2.SiteChange:
        """Returns the message."""
        raise NotImplementedError


@record
class Scaling(SiteChange):
    """x := factor * x."""

    factor: float

    def message(self) -> site_pb2.SiteChange:
        return site_pb2.SiteChange(scale=self.factor)


@record(eq=False)
class Setting(SiteChange):
    """x := vector, float32 [size] or [positions, size]."""

    vector: npt.NDArray[np.float32]

    def message(self) -> site_pb2.SiteChange:
        return site_pb2.SiteChange(set=tensor(self.vector))


@record(eq=False)
class Addition(SiteChange):
    """x := x + vector; with a strength, so many mean norms of the site in the direction of the vector."""

    vector: npt.NDArray[np.float32]
    strength: float | None

    def message(self) -> site_pb2.SiteChange:
        return site_pb2.SiteChange(add=site_pb2.Addition(vector=tensor(self.vector), strength=self.strength))


@record(eq=False)
class Erasure(SiteChange):
    """x := x - left right (x - mean)."""

    left: npt.NDArray[np.float32]
    right: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32] | None

    def message(self) -> site_pb2.SiteChange:
        mean = None if self.mean is None else tensor(self.mean)
        return site_pb2.SiteChange(erase=site_pb2.Projection(left=tensor(self.left), right=tensor(self.right), mean=mean))


@record(eq=False)
class Coding(SiteChange):
    """x := x + (factor - 1) sum of the active codes, or with `replace` their mean + factor times that sum."""

    encoder: npt.NDArray[np.float32]
    biases: npt.NDArray[np.float32]
    thresholds: npt.NDArray[np.float32]
    decoder: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32]
    factor: float
    replace: bool

    def message(self) -> site_pb2.SiteChange:
        arrays = {name: tensor(getattr(self, name)) for name in ("encoder", "biases", "thresholds", "decoder", "mean")}
        return site_pb2.SiteChange(codes=site_pb2.CodesChange(factor=self.factor, replace=self.replace, **arrays))


@record
class Source(SiteChange):
    """x := the same site's vectors in another run."""

    text: TextOrPair
    model: str
    positions: Found | None
    layer: int | None
    interventions: tuple[SiteIntervention, ...]

    def message(self) -> site_pb2.SiteChange:
        source = site_pb2.SiteSource(
            input=text_input(self.text),
            model=self.model,
            positions=None if self.positions is None else positions_message(self.positions),
            layer=self.layer,
            interventions=map(site_message, self.interventions),
        )
        return site_pb2.SiteChange(source=source)


@record
class Mean(SiteChange):
    """x := the mean over the reference texts."""

    def message(self) -> site_pb2.SiteChange:
        return site_pb2.SiteChange(mean=site_pb2.MeanOfReference())


@record
class Block(SiteChange):
    """Weights from the positions, the queries, to these keys := 0."""

    keys: Found

    def message(self) -> site_pb2.SiteChange:
        return site_pb2.SiteChange(block=positions_message(self.keys))


@record
class SiteIntervention:
    """A change at one site of one layer; made by `scale_site`, `set_site`, `add`, `erase`, `patch`, `mean_site`,
    `block_attention`, `SparseCodes.change` and `SparseCodes.reconstruct`. A call takes it in `interventions`, beside those of
    heads, which act first; site changes act in their order, each on what those before it left."""

    site: str
    """One of `bertscope.Site`, or "attention_weights"."""
    layer: int
    """0 to the model's layers - 1; of "state" to its layers: k is what layer k reads, the number of layers what the head of the
    model reads. There, other positions than those that it reads do nothing."""
    units: tuple[int, ...] | None
    """Heads or neurons, none twice; None means all of the layer."""
    positions: Found
    """Positions whose vectors change; of "attention_weights" the queries."""
    change: SiteChange
    """The change; `trace` takes it too."""


def site_message(changed: SiteIntervention) -> site_pb2.SiteIntervention:
    """Returns the message of a change that was checked when it was made."""
    return site_pb2.SiteIntervention(
        site=site_pb2.SITE_ATTENTION if changed.site == EDGES else SITES[changed.site],
        layer=changed.layer,
        units=changed.units,
        positions=positions_message(changed.positions),
        change=changed.change.message(),
    )


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
