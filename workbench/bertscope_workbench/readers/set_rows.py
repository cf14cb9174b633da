"""Reads the scores of sets back from the rows that `write_items` has written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bertscope import ComparedSet, ScoredInput, Scoring, TextComparison
from bertscope.errors import invalid_argument
from bertscope.values.validation import File

from bertscope_workbench.readers.files import Columns
from bertscope_workbench.readers.items.reading import read_rows, row_provenance, value
from bertscope_workbench.readers.set_files import read_sets

__all__ = ["read_pair_rows"]


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
        try:
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
        except (KeyError, TypeError, ValueError) as error:
            raise invalid_argument(
                f"{path}, row {number}", f"has no scores of a pair ({type(error).__name__}: {error})"
            ) from None
        found.append(compared)
    return TextComparison(tuple(found))
