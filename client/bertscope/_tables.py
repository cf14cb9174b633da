"""Results as pandas tables. pandas is an extra and is imported only here, when a table is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from bertscope.ablation import SweepTable
    from bertscope.classification import ClassifiedText
    from bertscope.ranking import HeadRanking
    from bertscope.results import AttentionMaps, FilledText, Model

PREDICTION_COLUMNS = [
    "text", "mask", "start", "end", "order", "token",
    "probability", "log_probability", "candidate_probability", "rank",
]  # fmt: skip
LABEL_COLUMNS = ["text", "text_pair", "order", "label", "index", "probability", "logit"]
METRIC_COLUMNS = ["metric", "score", "difference", "low", "high", "mcnemar_p"]
EFFECT_COLUMNS = ["layer", "head", "heads", *METRIC_COLUMNS]
POINT_COLUMNS = ["removed", "share_removed", "added", *METRIC_COLUMNS]


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


def classified_texts(results: Iterable[ClassifiedText]) -> pd.DataFrame:
    """A row for each label."""
    rows = [
        (result.text, result.text_pair, order, label.label, label.index, label.probability, label.logit)
        for result in results
        for order, label in enumerate(result.labels, start=1)
    ]
    return cast("pd.DataFrame", _pandas().DataFrame(rows, columns=LABEL_COLUMNS))


def sweep_rows(table: SweepTable) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns, and a row for each effect or point and metric; needs no pandas."""
    if table.points:
        point_rows = [
            (point.removed, point.share_removed, " ".join(point.names), *dataclasses.astuple(metric))
            for point in table.points
            for metric in point.metrics.values()
        ]
        return POINT_COLUMNS, point_rows
    effect_rows = [
        (effect.layer, effect.head, effect.name, *dataclasses.astuple(metric))
        for effect in table.effects
        for metric in effect.metrics.values()
    ]
    return EFFECT_COLUMNS, effect_rows


def sweep(table: SweepTable) -> pd.DataFrame:
    """A row for each effect or point and metric."""
    columns, rows = sweep_rows(table)
    frame = cast("pd.DataFrame", _pandas().DataFrame(rows, columns=columns))
    types = dict.fromkeys(("low", "high", "mcnemar_p"), "float64") | dict.fromkeys({"layer", "head"} & set(columns), "Int64")
    return frame.astype(types)


def ranking(result: HeadRanking) -> pd.DataFrame:
    """A row for each head."""
    layer, head = np.indices(result.importance.shape).reshape(2, -1)
    order = np.argsort(np.argsort(result.importance, axis=None, kind="stable")) + 1
    columns = {"importance": result.importance.reshape(-1), "gradient": result.gradient.reshape(-1), "order": order}
    return cast("pd.DataFrame", _pandas().DataFrame({"layer": layer, "head": head, **columns}))


def rows(flat: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows that have the same columns; None becomes what pandas has for nothing."""
    return cast("pd.DataFrame", _pandas().DataFrame(list(flat)))


def _pandas() -> ModuleType:
    try:
        import pandas
    except ImportError as error:
        raise ImportError('to_pandas() needs pandas: pip install "bertscope[pandas]"') from error
    return pandas
