"""Tables of all results: pandas' types with missing values, and no texts or numbers that stand for them."""

import ast
import datetime
import math
from pathlib import Path

import bertscope.questions
import numpy as np
import pandas
import pytest
from bertscope.values.display import data_frame


def test_a_column_of_missing_values_keeps_its_type():
    frame = data_frame([(None, None, None)], ["rank", "text_pair", "low"], whole=("rank",))
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "string", "Float64"]


@pytest.mark.parametrize("times", [[datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), None], [None, None]])
def test_times_are_times(times):
    frame = data_frame([[time] for time in times], ["ready_time"])
    assert frame["ready_time"].dtype == "datetime64[us, UTC]"
    assert frame["ready_time"].isna().tolist() == [time is None for time in times]


def test_lists_stay_what_they_are():
    assert data_frame({"vector": [[1.0], [2.0, 3.0]]})["vector"].tolist() == [[1.0], [2.0, 3.0]]


def makers() -> dict[str, str]:
    """Returns the source of each function or method of the client that makes a table, by its place."""
    folder = Path(bertscope.questions.__path__[0])
    return {
        f"{path.relative_to(folder)}:{node.lineno}": "\n".join(map(ast.unparse, node.body))
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.returns is not None and ast.unparse(node.returns) == "pd.DataFrame"
    }


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
ARRAYS = [np.array([1, 2]), np.array([1.0, np.nan], np.float32), np.array([True, False])]


def test_a_column_has_a_type_with_missing_values(stored) -> None:
    stored(
        columns=[data_frame({"x": values}, ["x"])["x"].array for values in COLUMNS],
        kinds=[str(data_frame({"x": values})["x"].dtype) for values in [*COLUMNS, *ARRAYS]],
        arrays=[data_frame({"x": values})["x"].array for values in ARRAYS],
    )
    for values in COLUMNS:
        by_rows = data_frame([[value] for value in values], ["x"])
        pandas.testing.assert_frame_equal(by_rows, data_frame({"x": values}, ["x"]))


def test_every_table_of_a_result_has_these_types():
    """A table is made by `data_frame`, or by another of these functions; none is made by pandas itself, or changes to types
    that know no missing values."""
    found = makers()
    assert len(found) > 60
    for place, source in found.items():
        assert any(maker in source for maker in ("data_frame(", "to_pandas(", "_table(")), place
        assert not any(other in source for other in ("pandas.DataFrame", "float64", "int64", "'object'")), place
