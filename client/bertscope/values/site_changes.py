"""Makes changes at sites: places in each layer where every token has a vector, at some positions of every text of a request.

Layers, heads and neurons count from 0. In a post-norm model (BERT) a state has been normalised, and what blocks give passes a
normalisation before anything reads it: patching all blocks of a layer is not patching its state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, SupportsIndex

from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.changes import (
    EDGES,
    SITES,
    WITH_UNITS,
    Addition,
    Block,
    Eraser,
    Erasure,
    Mean,
    Scaling,
    Setting,
    SiteChange,
    SiteIntervention,
    Source,
)
from bertscope.values.choices import Site
from bertscope.values.models import Model, model_name
from bertscope.values.positions import Found, Positions, checked_positions
from bertscope.values.validation import Heads, TextOrPair
from bertscope.values.vectors import float32s

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["add", "block_attention", "erase", "mean_site", "patch", "scale_site", "set_site"]

MAX_RANK = 256


def scale_site(
    layer: SupportsIndex, units: Heads = None, *, site: Site = "neurons", factor: float, positions: Positions = "all"
) -> SiteIntervention:
    """Multiplies vectors: x := factor * x, factor -1000 to 1000; 0 silences (knowledge neurons, Dai et al. 2022, section 4.2).

    `units` are heads or neurons, all unless given; `positions` "all", "masks", "first", "special", "not_special", numbers of
    tokens, or spans of the text as tuples (start, end).

    >>> scale_site(4, [17, 99], factor=0, positions="masks")
    SiteIntervention(site='neurons', layer=4, units=(17, 99), positions='masks', change=Scaling(0))
    """
    return _made(site, layer, units, positions, Scaling(validation.finite_number("factor", factor)))


def set_site(
    layer: SupportsIndex, vector: npt.ArrayLike, *, site: Site = "state", units: Heads = None, positions: Positions = "all"
) -> SiteIntervention:
    """Replaces vectors: x := vector, [size] for all positions or [positions, size] with one for each, in their order.

    `size` is that of all units together, one after another. Others as in `scale_site`.

    >>> set_site(3, [0.0, 0.5], positions="masks").change
    Setting(vector=float32[2] [0, 0.5])
    """
    checked = checked_positions("positions", positions)
    return _made(site, layer, units, positions, Setting(_vectors(vector, checked)))


def add(
    layer: SupportsIndex,
    vector: npt.ArrayLike,
    *,
    strength: float | None = None,
    site: Site = "state",
    units: Heads = None,
    positions: Positions = "all",
) -> SiteIntervention:
    """Adds a vector: x := x + vector (steering; Turner et al. 2023, section 3), [size] or [positions, size].

    `strength`, -1000 to 1000, makes `vector` a direction: what is added is so many times as long as the site's vectors over
    all tokens of the call's `reference_texts` are on average, which it needs; `Provenance.site_norms` has that length. A state
    of a post-norm model is normalised, so that adding moves it off what the layer was trained on; a pre-norm model normalises
    it away first: strengths of architectures are not comparable. Others as in `set_site`.

    >>> add(3, [1.0, 0.0], strength=2, positions="masks").change
    Addition(vector=float32[2] [1, 0], strength=2)
    """
    checked = checked_positions("positions", positions)
    values = _vectors(vector, checked)
    if strength is not None and (values.ndim != 1 or not values.any()):
        raise invalid_argument("vector", "must be one direction [size], and not 0, with strength; or leave strength out")
    number = None if strength is None else validation.finite_number("strength", strength)
    return _made(site, layer, units, positions, Addition(values, number))


def erase(
    layer: SupportsIndex,
    eraser: Eraser | tuple[npt.ArrayLike, ...],
    *,
    site: Site = "state",
    positions: Positions = "all",
) -> SiteIntervention:
    """Takes a subspace away: x := x - left right (x - mean), with left [size, rank], right [rank, size], rank 1 to 256 (LEACE,
    Belrose et al. 2023, equation 2; INLP, Ravfogel et al. 2020, with right the transpose of left and no mean).

    `eraser` is an object with `left`, `right` and `mean`, or a tuple of them, `mean` left out for zeros. Others as in
    `scale_site`.

    >>> erase(3, ([[1], [0]], [[1, 0]])).change
    Erasure(left=float32[2, 1] [1, 0], right=float32[1, 2] [1, 0])
    """
    if isinstance(eraser, (tuple, list)):
        if len(eraser) not in (2, 3):
            raise invalid_argument("eraser", f"must be a tuple (left, right) or (left, right, mean), not one of {len(eraser)}")
        left, right, mean = *eraser[:2], eraser[2] if len(eraser) == 3 else None
    elif hasattr(eraser, "left") and hasattr(eraser, "right"):
        left, right, mean = eraser.left, eraser.right, getattr(eraser, "mean", None)
    else:
        raise invalid_argument("eraser", f"must have left and right, or be a tuple of them, not {type(eraser).__name__}")
    found = float32s("left", left, "[size, rank]", 2), float32s("right", right, "[rank, size]", 2)
    size, rank = found[0].shape
    if found[1].shape != (rank, size) or not 1 <= rank <= MAX_RANK:
        raise invalid_argument(
            "right", f"must be [rank, size], rank 1 to {MAX_RANK}, for left [size, rank]; left is {found[0].shape}, right "
            f"{found[1].shape}"
        )  # fmt: skip
    centre = None if mean is None else float32s("mean", mean, "[size]", 1)
    if centre is not None and len(centre) != size:
        raise invalid_argument("mean", f"must be [{size}], as left has so many rows, not {list(centre.shape)}")
    return _made(site, layer, None, positions, Erasure(*found, centre))


def patch(
    layer: SupportsIndex,
    text: TextOrPair,
    *,
    site: Site = "state",
    units: Heads = None,
    positions: Positions = "all",
    source_positions: Positions | None = None,
    source_layer: SupportsIndex | None = None,
    model: str | Model | None = None,
    interventions: SiteIntervention | Iterable[SiteIntervention] = (),
) -> SiteIntervention:
    """Replaces vectors by those of another run, of `text`: activation patching, interchange (Geiger et al. 2021; Meng et al.
    2022, section 2).

    `source_positions` in that text, as many as `positions`, and `source_layer` are those of the change unless given. `model` is
    a hosted one with vectors of the same size there: at "state" and all positions, its lower layers run under the upper ones
    of the model that is asked (Hao et al. 2019). `interventions` are site changes of the other run, none of which has a text, a
    mean or a strength itself. Others as in `scale_site`.

    >>> patch(3, "The key to the cabinet [MASK] here.", positions=[2]).positions
    (2,)
    """
    changes = validation.instances("interventions", interventions, SiteIntervention)
    source = Source(
        text=validation.text_or_pair("text", text),
        model=model_name("model", model),
        positions=None if source_positions is None else checked_positions("source_positions", source_positions),
        layer=None if source_layer is None else validation.uint32("source_layer", source_layer),
        interventions=tuple(changes),
    )
    return _made(site, layer, units, positions, source)


def mean_site(
    layer: SupportsIndex, units: Heads = None, *, site: Site = "state", positions: Positions = "all"
) -> SiteIntervention:
    """Replaces vectors by their mean over all tokens of the call's `reference_texts`, which it needs, in a run without any
    change (mean ablation). Others as in `scale_site`.

    >>> mean_site(2, site="feed_forward", positions="masks").change
    Mean()
    """
    return _made(site, layer, units, positions, Mean())


def block_attention(
    layer: SupportsIndex, heads: Heads = None, *, keys: Positions, queries: Positions = "all"
) -> SiteIntervention:
    """Keeps tokens, the `queries`, from looking at others, the `keys`: their weights are 0, and the others of a query add
    up to 1 again (attention knockout, Geva et al. 2023, section 5). A query with no key left has the context 0. `heads` are all
    unless given; positions as in `scale_site`.

    >>> block_attention(2, [0, 3], queries="masks", keys=[2]).change
    Block(keys=(2,))
    """
    return SiteIntervention(
        EDGES,
        validation.uint32("layer", layer),
        validation.heads_or_all("heads", heads),
        checked_positions("queries", queries),
        Block(checked_positions("keys", keys)),
    )


def _made(site: str, layer: object, units: Heads, positions: object, change: SiteChange) -> SiteIntervention:
    validation.choice("site", site, SITES)
    if units is not None and site not in WITH_UNITS:
        raise invalid_argument("units", f'are heads or neurons, and site "{site}" has none; leave them out')
    return SiteIntervention(
        site,
        validation.uint32("layer", layer),
        validation.heads_or_all("units", units),
        checked_positions("positions", positions),
        change,
    )


def _vectors(given: npt.ArrayLike, positions: Found) -> npt.NDArray[np.float32]:
    """Returns a vector for all positions, or one for each."""
    found = float32s("vector", given, "[size], or [positions, size]", 1, 2)
    tokens = None if isinstance(positions, str) or not isinstance(positions[0], int) else len(positions)
    if found.ndim == 2 and tokens not in (None, len(found)):
        raise invalid_argument("vector", f"has {len(found)} rows for {tokens} positions; give one for each, or [size] for all")
    return found
