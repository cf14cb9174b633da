"""Several models that are asked the same: one table, and options that are of one model are refused."""

import numpy as np
from bertscope_workbench.command.options.models import one_model, side_by_side
from bertscope_workbench.command.parts.score_models import print_models
from bertscope_workbench.command.parts.score_pairs import summary_columns

from tests.support.stored_outputs import printed
from tests.support.text_sets import comparison


def test_models_of_pairs_differ_from_the_first_one_in_one_table(stored) -> None:
    first, other = comparison("rrrrrrrw"), comparison("rrwwwwwr", model="models/other")
    stored(
        printed=printed(print_models, {"fake": first, "other": other}, width=140),
        columns=summary_columns(other, first, {"kind": ["x"] * 8}),
        joined=side_by_side({"a": {"x": np.array([1, 2])}, "b": {"x": [3], "y": ["z"]}}),
        of_one_model=[one_model(None, plot="x.png"), one_model(["a"], plot="x.png"), one_model(["a", "b"], plot=None)],
        refused=lambda: one_model(["a", "b"], errors_output="x.csv"),
    )
