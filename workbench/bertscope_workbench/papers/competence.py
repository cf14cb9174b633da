"""Tells whether a model was trained, by the words that it predicts: a claim that takes training holds for no other."""

import math

from bertscope import FailedPrecondition, InvalidArgument, Unimplemented
from bertscope.values.models import short_name

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import NotAsked, paired
from bertscope_workbench.papers.items import plain_sentences
from bertscope_workbench.papers.items.treebank import bank_of

LEAST = 1.0
"""Nats by which words must be likelier than by guessing, the whole interval of 95 %: 2.7 times as likely. Random weights are no
better than guessing whatever their scale, and models that know no more than how frequent words are gain two nats or more."""
TEXTS = 60
"""The most sentences of a treebank."""


def untrained(asking: Asking) -> str:
    """Returns why a model may be one of random weights: its words are hardly likelier than by guessing. Empty if they are, and
    for a model without a masked-LM head, which predicts none."""
    return asking.kept("untrained", lambda: _untrained(asking)) if "cloze" in asking.model.capabilities else ""


def _untrained(asking: Asking) -> str:
    """Masks each piece of plain sentences alone; those of a treebank where none ship in the language."""
    name, guessing = short_name(asking.model), math.log(asking.model.vocabulary_size)
    try:
        scores = asking.client.score_texts(
            _texts(asking), model=asking.model, truncate=True, pieces=False, timeout=asking.timeout
        )
    except (NotAsked, FailedPrecondition, InvalidArgument, Unimplemented) as error:
        return f"nothing shows that {name} was trained: {error}"
    found = paired([guessing + score.log_likelihood / score.scored_pieces for score in scores], data="")
    if found.low > LEAST:
        return ""
    return (
        f"{name} predicts words like a model of random weights: {found.value:.2f} nats better than by guessing among all "
        f"pieces, and training shows above {LEAST:g}"
    )


def _texts(asking: Asking) -> list[str]:
    return plain_sentences(asking.language) or [sentence.text for sentence in bank_of(asking).sentences[:TEXTS]]
