"""Asks the facts of a study by `query_facts`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bertscope.client import Client
from bertscope.facts.metrics import relation_scores
from bertscope.models import Model
from bertscope.results import TextsProgress
from bertscope.studies.asking import OnDone, Outcome
from bertscope.studies.items import Known

EXTRAS = ("consistency", "same_if_negated", "misprimed", "primed_p@1", "unprimed_p@1")
"""Metrics of facts beside ranks; see `bertscope.facts.metrics`."""
SKIPPED = {
    "several_pieces": "no object is a single entry of the vocabulary",
    "not_among_candidates": "no object is among the candidates",
    "not_writable": "the vocabulary can't write the object",
    "too_long": "it has more tokens than the model reads",
}


def ask_facts(
    client: Client, model: Model, items: Sequence[Known], timeout: float | None, on_done: OnDone, vocabulary: Sequence[str] = ()
) -> list[Outcome]:
    """Returns the outcome of each fact, in order: the best rank of its objects in the first template, as in LAMA."""
    relations = {item.relation.name: item.relation for item in items}

    def show(progress: TextsProgress) -> None:
        on_done(progress.done, len(items))

    answers = client.query_facts(
        [item.fact for item in items],
        list(relations.values()),
        model=model,
        vocabulary=vocabulary,
        on_progress=show,
        timeout=timeout,
    )
    outcomes: list[Outcome] = []
    for item, result in zip(items, answers, strict=True):
        if result.skipped:
            outcomes.append(Outcome(SKIPPED.get(result.skipped, result.skipped)))
            continue
        scores = relation_scores(item.relation, [result], "first", 0)
        extras = {name: getattr(scores, name.replace("@", "_at_")) for name in EXTRAS}
        rank = result.answer(item.relation.affirmed[0]).rank
        outcomes.append(
            Outcome(rank=rank or 0, extras={name: value for name, value in extras.items() if not math.isnan(value)})
        )
    return outcomes
