"""Measures what a model loses without a property that is erased from its states: amnesic probing (Elazar et al. 2021)."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from bertscope import SiteIntervention

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, paired
from bertscope_workbench.papers.items.treebank import bank_of, by_column
from bertscope_workbench.papers.measures import Between
from bertscope_workbench.papers.pictures_data import bars
from bertscope_workbench.readers.treebanks import ConlluLabel

TRAINED, SCORED = 400, 40
"""The most sentences that an eraser is found on, and that the loss is of."""


def loss_without(asking: Asking, *, label: ConlluLabel, part_of_depth: Annotated[float, Between(0, 1)] = 0.5) -> Measured:
    """Measures the masked-LM loss, nats a piece, with a label of words erased by LEACE from the states of the layer at this
    part of the depth, beside that with a random subspace of the same rank erased. Items are sentences of the treebank."""
    bank = bank_of(asking)
    train, _, test = bank.parts(by_column(label))
    layer = max(1, round(part_of_depth * asking.model.layers))
    eraser = asking.client.train_eraser(
        train[:TRAINED],
        test=test,
        model=asking.model,
        layers=[layer],
        truncate=True,
        on_progress=asking.hear,
        timeout=asking.timeout,
    )
    texts = [sentence.text for sentence in bank.test[:SCORED]]

    def loss(*changes: SiteIntervention) -> npt.NDArray[np.float64]:
        scores = asking.client.score_texts(
            texts, model=asking.model, interventions=changes, truncate=True, pieces=False, timeout=asking.timeout
        )
        return np.array([-score.log_likelihood / score.scored_pieces for score in scores])

    erased, random, untouched = loss(eraser.change(layer)), loss(eraser.random_change(layer)), loss()
    found = eraser.layers[layer]
    return paired(
        erased,
        random,
        data=f"{len(texts)} {bank.source}; the eraser is found on {min(TRAINED, len(train))} others",
        picture=bars(
            "loss, nats a piece",
            {"untouched": untouched.mean(), "random subspace erased": random.mean(), f"{label} erased": erased.mean()},
        ),
        notes=[
            f"layer {layer}, {found.rank} dimensions",
            f"a probe is right on {found.accuracy_before:.0%} of words before, and on {found.accuracy_after:.0%} after",
            f"and on {found.accuracy_random:.0%} without the random subspace",
        ],
    )
