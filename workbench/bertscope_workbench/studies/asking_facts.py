"""Asks the facts of a study by `query_facts`."""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bertscope import Fact, FactRelation, FactResult, InvalidArgument, Model
from bertscope.questions.facts.answers import ROW_COLUMNS
from bertscope.questions.facts.metrics import relation_scores
from bertscope.rpc.splitting import OnRejected

from bertscope_workbench.readers.answer_rows import fact_result
from bertscope_workbench.readers.items.sources import Item
from bertscope_workbench.studies.asking import Outcome
from bertscope_workbench.studies.items import Known
from bertscope_workbench.studies.kept_rows import REJECTED, KeptAnswer, KeptRows, OnDone

EXTRAS = ("consistency", "same_if_negated", "misprimed", "primed_p@1", "unprimed_p@1")
"""Metrics of facts beside ranks; see `bertscope.questions.facts.metrics`."""
SKIPPED = {
    "several_pieces": "no object is a single entry of the vocabulary",
    "not_among_candidates": "no object is among the candidates",
    "not_writable": "the vocabulary can't write the object",
    "too_long": "it has more tokens than the model reads",
}
FACT = re.compile(r"^facts\[\d+\]\S*")


def ask_facts(
    kept: KeptRows, part: str, model: Model, items: Sequence[Known], on_done: OnDone, vocabulary: Sequence[str] = ()
) -> list[Outcome]:
    """Returns the outcome of each fact, in order: the best rank of its objects in the first template, as in LAMA."""
    relations = {item.relation.name: item.relation for item in items}
    found = fact_results(kept, part, model, [item.fact for item in items], relations, on_done, vocabulary)
    return [
        Outcome(result) if isinstance(result, str) else _outcome(item.relation, result)
        for item, result in zip(items, found, strict=True)
    ]


def fact_results(
    kept: KeptRows,
    part: str,
    model: Model,
    facts: Sequence[Fact],
    relations: Mapping[str, FactRelation],
    on_done: OnDone,
    vocabulary: Sequence[str] = (),
) -> list[FactResult | str]:
    """Returns the answers about each fact, in order; the reason for one that the server did not take."""

    def query(asked: Iterator[Fact], on_rejected: OnRejected) -> Generator[FactResult, None, None]:
        return kept.client.query_facts_stream(
            asked,
            relations.values(),
            model=model,
            vocabulary=vocabulary,
            on_rejected=on_rejected,
            timeout=kept.timeout,
        )

    def columns(_: Fact, answer: FactResult) -> dict[str, Any]:
        return {REJECTED: None, **answer.to_row()}

    def without(_: Fact, error: InvalidArgument) -> dict[str, Any]:
        return {REJECTED: FACT.sub("the fact", error.message), **dict.fromkeys(ROW_COLUMNS)}

    def query_facts(
        asked: Iterator[Fact], *, relations: Iterable[FactRelation], vocabulary: Sequence[str]
    ) -> Generator[KeptAnswer, None, None]:
        return kept.answers(model, asked, query, columns, without)

    options = {"relations": list(relations.values()), "vocabulary": vocabulary}
    rows = kept.rows(part, model, [Item(fact, fact.to_row()) for fact in facts], query_facts, options, on_done)
    return [row[REJECTED] or fact_result(row, relations) for row in rows]


def _outcome(relation: FactRelation, result: FactResult) -> Outcome:
    if result.skipped:
        return Outcome(SKIPPED.get(result.skipped, result.skipped))
    scores = relation_scores(relation, [result], "first", 0)
    extras = {name: getattr(scores, name.replace("@", "_at_")) for name in EXTRAS}
    rank = result.answer(relation.affirmed[0]).rank
    return Outcome(rank=rank or 0, extras={name: value for name, value in extras.items() if not math.isnan(value)})
