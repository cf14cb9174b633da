"""Several models that are asked the same: one table, and options that are of one model are refused."""

import io

import numpy as np
import pytest
from bertscope_workbench.command.app import run
from bertscope_workbench.command.options.models import one_model, side_by_side
from bertscope_workbench.command.parts.score_models import print_models
from bertscope_workbench.command.parts.score_pairs import summary_columns
from bertscope_workbench.command.views.output import UsageError
from rich.console import Console

from tests.support.text_sets import comparison


def test_tables_are_joined_with_the_model_first():
    joined = side_by_side({"a": {"x": np.array([1, 2])}, "b": {"x": [3], "y": ["z"]}})
    assert joined == {"model": ["a", "a", "b"], "x": [1, 2, 3], "y": [None, None, "z"]}


def test_options_of_one_model_are_refused_for_several():
    assert (one_model(None, plot="x.png"), one_model(["a"], plot="x.png")) == (None, "a")
    assert one_model(["a", "b"], plot=None) == "a"
    with pytest.raises(UsageError, match="--errors-output goes with one --model"):
        one_model(["a", "b"], errors_output="x.csv")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["score", "a text", "--model", "a", "--model", "b"], "several --model go with --pairs"),
        (["attention", "a text", "--model", "a", "--model", "b"], "several --model go with --describe"),
        (["attention", "--compare", "c", "a text", "--model", "a", "--model", "b"], "--compare goes with one --model"),
        (
            ["attention", "--describe", "x", "--picture", "statistics", "--model", "a", "--model", "b"],
            "--picture goes with one",
        ),
        (["relations", "x.conllu", "--tree", "--model", "a", "--model", "b"], "--tree goes with one --model"),
        *(
            (
                [*command, "--model", "b", "--model", "a", "--model", "models/a"],
                "--model a and --model models/a are the same model",
            )
            for command in (
                ["score", "--pairs", "x.tsv"],
                ["relations", "x.conllu"],
                ["probe", "x.conllu"],
                ["benchmark"],
                ["primer"],
            )
        ),
        (["score", "--pairs", "x.tsv", "--model", "a", "--model", "a"], "--model a and --model a are the same model"),
    ],
)
def test_commands_refuse_them_before_any_call(capsys, arguments, says):
    assert run(arguments) == 2
    assert says in capsys.readouterr().err


def test_models_of_pairs_differ_from_the_first_one_in_one_table():
    first, other = comparison("rrrrrrrw"), comparison("rrwwwwwr", model="models/other")
    screen = Console(width=140, file=io.StringIO())
    print_models(screen, {"fake": first, "other": other})
    lines = [" ".join(line.split()) for line in screen.file.getvalue().splitlines()]
    assert sum(line.startswith("all fake 8 87.5 ") for line in lines) == 1
    assert sum(line.startswith("all other 8 37.5 ") for line in lines) == 1
    assert "models/other beside models/fake, pair by pair" in lines
    table = summary_columns(other, first, {"kind": ["x"] * 8})
    assert (table["baseline_accuracy"][0], table["above_baseline"][0], table["won"][0], table["lost"][0]) == (0.875, -0.5, 1, 5)
    assert table["above_baseline_low"][0] < -0.5 < table["above_baseline_high"][0]
    assert table["kind"] == [None, "x", "x", "x"]
