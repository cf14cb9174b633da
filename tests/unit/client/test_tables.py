"""Tables of all results: pandas' types with missing values, and no texts or numbers that stand for them."""

import datetime
import math

import numpy as np
import pandas
from bertscope.values.display import data_frame

COLUMNS = [
    [1, None],
    [1, 2],
    [1.0, 2.0],
    [1.5, math.nan],
    [1, 2.5],
    [np.float32(1), None],
    [True, None],
    ["a", ""],
    [None, None],
]
TIME = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)
ARRAYS = [np.array([1, 2]), np.array([1.0, np.nan], np.float32), np.array([True, False])]


def test_a_column_has_a_type_with_missing_values(stored) -> None:
    stored(
        columns=[data_frame({"x": values}, ["x"])["x"].array for values in COLUMNS],
        kinds=[str(data_frame({"x": values})["x"].dtype) for values in [*COLUMNS, *ARRAYS]],
        arrays=[data_frame({"x": values})["x"].array for values in ARRAYS],
        of_missing_values=data_frame([(None, None, None)], ["rank", "text_pair", "low"], whole=("rank",)),
        times=data_frame([[TIME], [None]], ["ready_time"]),
        no_times=data_frame([[None], [None]], ["ready_time"]),
        lists=data_frame({"vector": [[1.0], [2.0, 3.0]]}),
    )
    for values in COLUMNS:
        by_rows = data_frame([[value] for value in values], ["x"])
        pandas.testing.assert_frame_equal(by_rows, data_frame({"x": values}, ["x"]))
