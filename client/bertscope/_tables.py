"""Results as pandas tables. pandas is an extra and is imported only here, when a table is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from bertscope.results import AttentionMaps, FilledText, Model

PREDICTION_COLUMNS = [
    "text", "mask", "start", "end", "order", "token",
    "probability", "log_probability", "candidate_probability", "rank",
]  # fmt: skip


def filled_texts(results: Iterable[FilledText]) -> pd.DataFrame:
    """A row for each prediction."""
    rows = [
        (
            *(result.text, index, mask.start, mask.end, order, prediction.token),
            *(prediction.probability, prediction.log_probability, prediction.candidate_probability, prediction.rank),
        )
        for result in results
        for index, mask in enumerate(result.masks)
        for order, prediction in enumerate(mask.predictions, start=1)
    ]
    table = cast("pd.DataFrame", _pandas().DataFrame(rows, columns=PREDICTION_COLUMNS))
    return table.astype({"candidate_probability": "float64", "rank": "Int64"})


def attention(maps: AttentionMaps) -> pd.DataFrame:
    """A row for each weight."""
    layer, head, row, column = np.indices(maps.attention.shape).reshape(4, -1)
    texts = np.array([token.text for token in maps.tokens], dtype=object)
    table = _pandas().DataFrame(
        {
            "layer": np.array(maps.layers)[layer],
            "head": np.array(maps.heads)[head],
            "from_index": row,
            "from_token": texts[row],
            "to_index": column,
            "to_token": texts[column],
            "attention": maps.attention.reshape(-1).astype(np.float32, copy=False),  # pandas computes little in float16
        }
    )
    return cast("pd.DataFrame", table)


def models(results: Iterable[Model]) -> pd.DataFrame:
    """A row for each model."""
    from bertscope.results import Model

    columns = [field.name for field in dataclasses.fields(Model)]
    rows = [[getattr(model, column) for column in columns] for model in results]
    return cast("pd.DataFrame", _pandas().DataFrame(rows, columns=columns))


def _pandas() -> ModuleType:
    try:
        import pandas
    except ImportError as error:
        raise ImportError('to_pandas() needs pandas: pip install "bertscope[pandas]"') from error
    return pandas
