"""Measures where layers have the order of words, and where the tree (Lin et al. 2019, "Open Sesame")."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from bertscope import ProbeText, RegressionResult, ValuedText
from bertscope.values.labelled_texts import Label, Value

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, bootstrapped
from bertscope_workbench.papers.items.treebank import bank_of, by_column
from bertscope_workbench.papers.pictures_data import ACROSS, curves

Quantity = Literal["index", "depth"]
LEAST_LAYERS = 3
MOST = (400, 60, 200)
"""The most sentences to train on, to end training and to test on."""


def change(asking: Asking, *, quantity: Quantity, rises: bool) -> Measured:
    """Measures how much more of a word's number in the sentence ("index"), or of its depth in the tree, a linear map reads from
    one layer than from another: R^2 over the test sentences of the treebank, which are the items.

    What rises does so from the embeddings to the layer with the least error above them, on the sentences that end training;
    what falls, from the end of the first third of the layers to the last one. Raises NotAsked for models of fewer than three
    layers.
    """
    depth = asking.model.layers
    if depth < LEAST_LAYERS:
        raise NotAsked(f"a model of {depth} layers has no thirds")
    found = asking.kept(f"order {quantity}", lambda: _trained(asking, quantity))
    other = asking.kept(
        "order index" if quantity == "depth" else "order depth",
        lambda: _trained(asking, "index" if quantity == "depth" else "depth"),
    )
    best = min(found.layers[1:], key=lambda one: one.dev_rmse).layer
    first, second = (0, best) if rises else (round(depth / 3), depth)
    one, two = found.layer(first), found.layer(second)

    def statistic(chosen: npt.NDArray[np.int64]) -> float:
        gained = (one.errors[chosen] - two.errors[chosen]).sum() / found.squares[chosen].sum()
        return float(gained if rises else -gained)

    high, low = (two, one) if rises else (one, two)
    lines: dict[str, list[float]] = {quantity: [each.r_squared for each in found.layers]}
    lines |= {"depth" if quantity == "index" else "index": [each.r_squared for each in other.layers]}
    bank = bank_of(asking)
    return bootstrapped(
        statistic,
        len(found.squares),
        value=high.r_squared,
        control=low.r_squared,
        data=f"{len(found.squares)} {bank.source}, probes trained on {found.train.spans} words of others",
        picture=curves(ACROSS, [each.layer for each in found.layers], "R²", lines),
        notes=[f"layers {high.layer} and {low.layer}"],
    )


def _trained(asking: Asking, quantity: Quantity) -> RegressionResult:
    bank = bank_of(asking)
    train, dev, test = (valued(part[:most]) for part, most in zip(bank.parts(by_column(quantity)), MOST, strict=True))
    return asking.client.train_regression_probe(
        train,
        dev=dev,
        test=test,
        model=asking.model,
        truncate=True,
        on_progress=asking.hear,
        timeout=asking.timeout,
    )


def valued(texts: Sequence[ProbeText]) -> list[ValuedText]:
    """Returns texts whose labels are written numbers, with these as numbers."""
    found = []
    for text in texts:
        labels = [Label(*one) for one in text.labels]
        found.append(ValuedText(text.text, [Value(float(one.label), one.start, one.end, one.segment) for one in labels]))
    return found
