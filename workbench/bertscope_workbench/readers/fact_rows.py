"""Reads the answers about facts back from the rows that `write_items` has written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertscope import Fact, FactAnswer, FactAnswers, FactPrediction, FactRelation, FactResult
from bertscope.errors import invalid_argument
from bertscope.questions.facts.answers import ANSWER_FIELDS
from bertscope.questions.facts.knowledge import joined
from bertscope.questions.facts.questions import Relations, relations_by_name
from bertscope.values.validation import File

from bertscope_workbench.readers.items.formats import Row
from bertscope_workbench.readers.items.reading import read_rows, row_provenance, value

__all__ = ["read_fact_rows"]


def read_fact_rows(path: File, relations: Relations) -> FactAnswers:
    """Reads the answers in a file that `write_items` has written of `Client.query_facts_stream`, of the same relations.

    Numbers are those of the answers. The provenance is theirs, but for `device`, which is empty. All answers are in
    memory.

    Raises OSError for a file that cannot be read, and InvalidArgument for one with other rows.
    """
    known, path = relations_by_name(relations), Path(path)
    results = []
    for number, row in enumerate(read_rows(path), start=1):
        try:
            results.append(fact_result(row, known))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise invalid_argument(
                f"{path}, row {number}", f"is no answer about these relations ({type(error).__name__}: {error})"
            ) from None
    if not results:
        raise invalid_argument(str(path), "has no row; write some with write_items")
    return joined(results, known)


def fact_result(row: Row, relations: Mapping[str, FactRelation]) -> FactResult:
    """Returns the answers of a row. Raises KeyError, TypeError, ValueError or IndexError for a row of another kind."""
    name = row["relation"] or next(iter(relations))
    fact = Fact(row["subject"], value(row["objects"]), relations[name].name, value(row["primes"]))
    lists = [value(row[column]) for column in ANSWER_FIELDS.values()]
    predictions = zip(value(row["predictions"]), value(row["prediction_log_probabilities"]), strict=True)
    answers = zip(*lists, predictions, strict=True)
    return FactResult(
        fact=fact,
        answers=tuple(_answer(dict(zip(ANSWER_FIELDS, each, strict=True)), found) for *each, found in answers),
        skipped=row["skipped"] or None,
        object_in_subject=value(row["object_in_subject"]),
        ranked_among=value(row["ranked_among"]),
        vocabulary_left_out=value(row["vocabulary_left_out"]),
        scoring=row["scoring"],
        provenance=row_provenance(row),
    )


def _answer(values: Mapping[str, Any], predictions: tuple[list[str], list[float]]) -> FactAnswer:
    return FactAnswer(**values, predictions=tuple(map(FactPrediction, *predictions)))
