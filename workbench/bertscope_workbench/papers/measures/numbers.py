"""Measures whether numbers that were not in training can be read from states, and sums of them (Wallace et al. 2019)."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from bertscope import RegressionResult

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, bootstrapped
from bertscope_workbench.papers.items import numbers as data
from bertscope_workbench.papers.measures.sentences import chosen_names, crossed
from bertscope_workbench.papers.pictures_data import ACROSS, curves

Kind = Literal["values", "sums", "beyond"]
SEEN, FURTHER, SUMMED = range(100), range(100, 200), range(10, 200)


def read_out(asking: Asking, *, kind: Kind, above_embeddings: bool = False) -> Measured:
    """Measures R^2 of numbers that no training text has, by the layer whose probe does best on other numbers: the values of 0
    to 99 in sentences ("values"), sums of two of 10 to 199 ("sums"), or values of 100 to 199 by probes of 0 to 99 ("beyond").
    `above_embeddings` sets it beside R^2 of the embeddings.

    The other numbers are those that end training; of "beyond", whose best layer they can't tell, the other half of 100 to 199.
    """
    texts, found = _trained(asking, kind)
    groups = np.unique(texts.groups, return_inverse=True)[1]
    squares = _summed(found.squares, groups)
    layers = np.array([_summed(one.errors, groups) for one in found.layers])
    base, notes = layers[0], f"layer {found.best_layer} has the least error on numbers that end training"
    errors = _summed(found.layer(found.best_layer).errors, groups)
    if kind == "beyond":
        falls, chosen = crossed(-layers.T)
        errors, notes = -falls, chosen_names([f"layer {found.layers[one].layer}" for one in chosen])

    def statistic(chosen: npt.NDArray[np.int64]) -> float:
        missed = errors[chosen].sum() - (base[chosen].sum() if above_embeddings else squares[chosen].sum())
        return float(-missed / squares[chosen].sum())

    every = np.arange(len(squares))
    lines = {"probe": [one.r_squared for one in found.layers], "always the mean": [0.0] * len(found.layers)}
    return bootstrapped(
        statistic,
        len(squares),
        value=float(1 - errors.sum() / squares.sum()),
        control=float(1 - base.sum() / squares.sum()) if above_embeddings else None,
        data=f"{len(texts.test)} texts with {len(every)} {'sums' if kind == 'sums' else 'numbers'} that no other text has, "
        f"{len(texts.train)} texts to train on (our own, licence of the project)",
        picture=curves(ACROSS, [one.layer for one in found.layers], "R²", lines),
        notes=[notes],
    )


def _trained(asking: Asking, kind: Kind) -> tuple[data.NumberTexts, RegressionResult]:
    def make() -> tuple[data.NumberTexts, RegressionResult]:
        texts = {
            "values": lambda: data.values(SEEN),
            "sums": lambda: data.sums(SUMMED),
            "beyond": lambda: data.beyond(SEEN, FURTHER),
        }[kind]()
        found = asking.client.train_regression_probe(
            texts.train,
            dev=texts.dev,
            test=texts.test,
            model=asking.model,
            on_progress=asking.hear,
            timeout=asking.timeout,
        )
        return texts, found

    return asking.kept(f"numbers {kind}", make)


def _summed(values: npt.NDArray[np.float64], groups: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Returns the sums of groups."""
    return np.bincount(groups, values).astype(np.float64)
