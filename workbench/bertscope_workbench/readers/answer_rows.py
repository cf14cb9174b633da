"""Reads answers back from the rows that `write_items` has written: about facts, and of pairs of texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertscope import (
    ComparedSet,
    Fact,
    FactAnswer,
    FactAnswers,
    FactPrediction,
    FactRelation,
    FactResult,
    Provenance,
    ScoredInput,
    Scoring,
    TextComparison,
)
from bertscope.errors import invalid_argument
from bertscope.questions.facts.answers import ANSWER_FIELDS, Relations, relations_by_name
from bertscope.questions.facts.knowledge import joined
from bertscope.values.validation import File

from bertscope_workbench.readers.files import Columns
from bertscope_workbench.readers.items import parquet
from bertscope_workbench.readers.items.formats import FORMATS, Row
from bertscope_workbench.readers.items.row_file import PARQUET, ROW_FORMATS
from bertscope_workbench.readers.set_files import read_sets

__all__ = ["read_fact_rows", "read_pair_rows"]


def read_fact_rows(path: File, relations: Relations) -> FactAnswers:
    """Reads the answers in a file that `write_items` has written of `Client.query_facts_stream`, of the same relations.

    Numbers are those of the answers. The provenance is theirs, but for `device`, which is empty. All answers are in
    memory.

    Raises OSError for a file that cannot be read, and InvalidArgument for one with other rows.
    """
    known, path = relations_by_name(relations), Path(path)
    results = []
    for number, row in enumerate(read_rows(path), start=1):
        with _row_of_another_kind(path, number, "is no answer about these relations"):
            results.append(fact_result(row, known))
    if not results:
        raise invalid_argument(str(path), "has no row; write some with write_items")
    return joined(results, known)


def read_pair_rows(
    path: File, groups: str | Iterable[str] | None = None, *, columns: Columns = None, scoring: Scoring = "within_word"
) -> TextComparison:
    """Reads the scores in a file that `write_items` has written of `Client.compare_texts_stream`, of a file of pairs.

    `groups` and `columns` are as in `read_sets`: a row has all columns of its pair. `scoring` is what the pairs were scored by.
    The provenance is that of the scores, but for `device`, which is empty. All scores are in memory.

    Raises OSError for a file that cannot be read, and InvalidArgument for one with other rows.
    """
    found = []
    sets = read_sets(path, groups, columns=columns)
    for number, (one, row) in enumerate(zip(sets, read_rows(Path(path)), strict=True), start=1):
        with _row_of_another_kind(path, number, "has no scores of a pair"):
            compared = ComparedSet(
                texts=tuple(text for text in one.texts if not isinstance(text, ScoredInput)),  # as files have none
                right=one.right,
                groups=tuple(one.groups),
                log_likelihoods=tuple(value(row["log_likelihoods"])),
                scored_pieces=tuple(value(row["scored_pieces"])),
                outcome=row["outcome"],
                truncated_tokens=int(value(row["truncated_tokens"])),
                scoring=scoring,
                provenance=row_provenance(row),
            )
        found.append(compared)
    return TextComparison(tuple(found))


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


def read_rows(path: Path) -> Iterator[Row]:
    """Yields the whole rows of a file: values by column, as the format gives them back; see `value`.

    Raises OSError for a file that cannot be read, and InvalidArgument for one with other contents.
    """
    suffix = path.suffix.lower()
    if suffix not in ROW_FORMATS:
        raise invalid_argument(str(path), f"the name must end with {', '.join(ROW_FORMATS)}")
    if suffix == PARQUET:
        yield from parquet.rows(path)
        return
    with path.open("rb") as file:
        for written in FORMATS[suffix].read(file, path):
            yield written.cells


def row_provenance(row: Row) -> Provenance:
    """Returns the provenance of a row's answer; `device`, which no row has, is empty. Raises KeyError or ValueError for a
    row of another kind."""
    return Provenance(
        *(row["model"], row["weights"], row["runtime"], "", row["precision"]), value(row["versions"]), "zero_based"
    )


def value(cell: Any) -> Any:
    """Returns a list, a number, True, False or None, whether the format keeps its type or has it as a text of JSON.

    Raises ValueError for another text.
    """
    if isinstance(cell, str):
        return json.loads(cell) if cell else None
    return cell


@contextmanager
def _row_of_another_kind(path: File, number: int, problem: str) -> Iterator[None]:
    """Raises InvalidArgument with the problem, naming the file and the row, if the row cannot be read as an answer."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise invalid_argument(f"{path}, row {number}", f"{problem} ({type(error).__name__}: {error})") from None
