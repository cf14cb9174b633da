"""The tables of filled masks: a row for each prediction, or for each filling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from bertscope.values.display import data_frame

if TYPE_CHECKING:
    import pandas as pd

    from bertscope.questions.cloze.answers import FilledText

PREDICTION_COLUMNS = [
    "text", "mask", "start", "end", "order", "token",
    "probability", "log_probability", "candidate_probability", "rank",
]  # fmt: skip
WHOLE = ("mask", "start", "end", "order", "rank", "segment")
PAIR_COLUMNS = ["text_pair", "segment", "next_sentence_probability"]
FILLING_COLUMNS = ["text", "order", "filled", "tokens", "pieces", "log_probability", "mean_log_probability"]


def cloze_table(results: Iterable[FilledText]) -> pd.DataFrame:
    """Returns a row for each prediction, or for each filling if there are any."""
    results = list(results)
    if any(result.fillings for result in results):
        return _fillings_table(results)
    rows = (row for result in results for row in _rows(result))
    table = data_frame(rows, [*PREDICTION_COLUMNS, *PAIR_COLUMNS, "logit"], whole=WHOLE)
    if all(result.text_pair is None for result in results):
        table = table.drop(columns=PAIR_COLUMNS)
    return table.drop(columns="logit") if table["logit"].isna().all() else table


def _rows(result: FilledText) -> Iterator[tuple[object, ...]]:
    """Yields a row for each prediction of a text, and one for a pair without a mask."""
    for index, mask in enumerate(result.masks):
        for order, word in enumerate(mask.predictions, start=1):
            yield (
                *(result.text, index, mask.start, mask.end, order, word.token, word.probability, word.log_probability),
                *(word.candidate_probability, word.rank, result.text_pair, mask.segment),
                *(result.next_sentence_probability, word.logit),
            )
    if result.text_pair is not None and not result.masks:
        missing = (None,) * (len(PREDICTION_COLUMNS) - 1)
        yield (result.text, *missing, result.text_pair, None, result.next_sentence_probability, None)


def _fillings_table(results: Sequence[FilledText]) -> pd.DataFrame:
    """Returns a row for each filling, and one for a pair without a mask."""
    rows: list[tuple[object, ...]] = []
    for result in results:
        filled_pair: Sequence[str | None] = result.filled_pair or [None] * len(result.fillings)
        for order, (filling, filled, pair) in enumerate(zip(result.fillings, result.filled, filled_pair, strict=True), start=1):
            pieces = tuple(span.pieces for span in filling.spans)
            own = (order, filled, filling.tokens, pieces, filling.log_probability, filling.mean_log_probability)
            rows.append((result.text, *own, result.text_pair, pair, result.next_sentence_probability))
        if result.text_pair is not None and not result.masks:
            rows.append((result.text, *(None,) * 6, result.text_pair, None, result.next_sentence_probability))
    columns = ["text_pair", "filled_pair", "next_sentence_probability"]
    table = data_frame(rows, [*FILLING_COLUMNS, *columns], whole=("order",))
    return table.drop(columns=columns) if all(result.text_pair is None for result in results) else table
