"""Measures where heads look in plain sentences, without any annotation (Kovaleva et al. 2019; Clark et al. 2019)."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from bertscope import Quantity
from bertscope.questions.attention.description import PATTERNS, STATISTICS

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired
from bertscope_workbench.papers.measures.sentences import (
    Values,
    crossed,
    described,
    head_names,
    own_texts,
    source,
    special_tokens,
    statistic,
)
from bertscope_workbench.papers.pictures_data import curves, grid


def mass_of_best_head(asking: Asking, *, on: Annotated[str, STATISTICS]) -> Measured:
    """Measures the mean weight that the head which gives most to `on`, a statistic such as "previous", gives to it; the head is
    chosen on other sentences (Clark et al. 2019, section 3)."""
    values = statistic(asking, on)
    scored, best = crossed(values.reshape(len(values), -1))
    return paired(
        scored,
        bounds=(0, 1),
        data=source(asking, len(scored)),
        picture=grid(values.mean(0).tolist(), f"weight to {on.replace('_', ' ')}, mean"),
        notes=[head_names(best, values.shape[2])],
    )


def entropy_of_best_head(asking: Asking, *, broad: bool) -> Measured:
    """Measures the entropy of the broadest head, or of the narrowest, as a share of that of uniform attention; the head is
    chosen on other sentences (Clark et al. 2019, section 3.3)."""
    tokens = np.array([text.tokens for text in described(asking)], np.float64)
    values = statistic(asking, "entropy") / np.log(tokens)[:, None, None]
    scored, best = crossed((values if broad else -values).reshape(len(values), -1))
    return paired(
        scored if broad else -scored,
        bounds=(0, 1),
        data=source(asking, len(scored)),
        picture=grid(values.mean(0).tolist(), "entropy, share of that of uniform attention"),
        notes=[head_names(best, values.shape[2])],
    )


def class_share(
    asking: Asking, *, classes: Sequence[Annotated[str, PATTERNS]], pairs: bool = False, own: bool = False
) -> Measured:
    """Measures the share of maps that are of some classes of Kovaleva et al. 2019, section 4.1; with `own`, in texts of
    --data."""
    found = described(asking, pairs=pairs, own=own)
    shares = {name: np.array([text.pattern_share(name).mean(1) for text in found]) for name in found[0].patterns}
    lines = {name.replace("_", " and "): share.mean(0).tolist() for name, share in shares.items()}
    data = source(asking, len(found)) + (", each with the next one as a pair" if pairs else "")
    return paired(
        np.sum([shares[name].mean(1) for name in classes], axis=0),
        bounds=(0, 1),
        data=f"{len(found)} {own_texts(asking, pairs=pairs)[1]}" if own else data,
        picture=curves("layer", found[0].layers, "share of maps", lines),
    )


def class_repeats(asking: Asking) -> Measured:
    """Measures how often a head's map of one sentence is of the class of its map of another one, beside how often the maps of
    two different heads are of one class."""
    found = described(asking)
    classes = [*found[0].patterns]
    maps = np.stack([np.stack([text.pattern_share(name).ravel() for name in classes]) for text in found])
    # [sentences, classes, heads]: one-hot. Each sentence is compared with all others.
    others = (maps.sum(0) - maps) / max(1, len(maps) - 1)
    same = (maps * others).sum(1).mean(1)
    heads = maps.shape[2]
    different = ((maps.sum(2) * others.sum(2)).sum(1) - (maps * others).sum((1, 2))) / (heads * (heads - 1))
    most = maps.mean(0).max(0).reshape(len(found[0].layers), -1)
    picture = grid(most.tolist(), "share of sentences whose map is of the head's commonest class")
    return paired(same, different, bounds=(-1, 1), data=source(asking, len(found)), picture=picture)


def special_mass(asking: Asking, *, beside: Literal["uniform", "norms"] = "uniform") -> Measured:
    """Measures the attention to special tokens, mean over heads, beside what uniform attention gives them, or beside their
    share of the norms of weighted vectors (`beside` "norms"; Kobayashi et al. 2020, section 4)."""
    weights = _special(asking, "weights")
    if beside == "norms":
        control = _special(asking, "norms")
    else:
        tokens = np.array([text.tokens for text in described(asking)], np.float64)
        control = np.repeat((special_tokens(asking) / tokens)[:, None], weights.shape[1], axis=1)
    lines = {"weights": weights.mean(0).tolist(), beside: control.mean(0).tolist()}
    picture = curves("layer", [*range(weights.shape[1])], "share of attention to special tokens", lines)
    return paired(weights.mean(1), control.mean(1), bounds=(-1, 1), data=source(asking, len(weights)), picture=picture)


def rise_in_upper_layers(asking: Asking, *, of: Annotated[str, STATISTICS], quantity: Quantity = "weights") -> Measured:
    """Measures a statistic in the upper half of the layers, mean over heads, beside the lower half."""
    values = statistic(asking, of, quantity).mean(2)
    layers = values.shape[1]
    if layers < 2:
        raise NotAsked("one layer has no upper and lower half")
    picture = curves("layer", [*range(layers)], f"{of}, mean over heads", {"model": values.mean(0).tolist()})
    return paired(
        values[:, layers // 2 :].mean(1),
        values[:, : layers // 2].mean(1),
        bounds=(-1, 1),
        data=source(asking, len(values)),
        picture=picture,
    )


def resemblance(asking: Asking) -> Measured:
    """Measures the Jensen-Shannon divergence of heads of different layers, beside that of heads of one layer (Clark et al.
    2019, section 6)."""
    within, between, means = [], [], []
    for text in described(asking):
        if text.head_distances is None:
            raise NotAsked("the server sent no distances between heads")
        layers = len(text.layers)
        blocks = text.head_distances.divergences().reshape(layers, text.heads, layers, text.heads)
        sums = blocks.sum((1, 3))
        if layers < 2 or text.heads < 2:
            raise NotAsked("it takes two layers of two heads")
        within.append(np.trace(sums) / (layers * text.heads * (text.heads - 1)))
        between.append((sums.sum() - np.trace(sums)) / (layers * (layers - 1) * text.heads**2))
        means.append(sums / (text.heads**2 - text.heads * np.eye(layers)))
    picture = grid(np.mean(means, axis=0).tolist(), "divergence of two heads, nats", across="layer")
    return paired(between, within, bounds=(-1, 1), data=source(asking, len(within)), picture=picture)


def _special(asking: Asking, quantity: Quantity) -> Values:
    """Returns [sentences, layers]: the share of special tokens, mean over heads."""
    first = statistic(asking, "first_special", quantity)
    return np.asarray((first + statistic(asking, "separators", quantity)).mean(2))
