"""Substitutions of a protein, as the client holds them: mutations by name, tables, a heat map."""

from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.cloze.substitutions import Substitutions, checked_letters
from bertscope.values.results import Provenance
from bertscope.values.validation import residues_of

LOGS = np.log([[0.5, 0.2, 0.1], [0.25, 0.4, 0.6]])


@pytest.fixture
def found() -> Substitutions:
    return Substitutions(
        "MKV", "KV", LOGS, np.log([0.1, 0.2, 0.6]), Provenance("models/esm", "", "torch", "cpu", "fp32", {}, "zero_based")
    )


def test_a_mutation_by_name(found: Substitutions) -> None:
    assert found.score("M1K") == pytest.approx(np.log(5))
    assert found.score("M1K:V3K") == pytest.approx(np.log(5) + np.log(1 / 6))
    assert found.score("K2K") == 0


@pytest.mark.parametrize(
    ("mutation", "message"),
    [("M1", "form"), ("K1V", "residue 1 is M"), ("M9V", "shorter"), ("M1W", "not scored"), ("", "form")],
)
def test_a_mutation_that_does_not_fit(found: Substitutions, mutation: str, message: str) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=message):
        found.score(mutation)


def test_the_table_leaves_out_what_is_there(found: Substitutions) -> None:
    columns = found.columns()
    assert columns["mutation"] == ["M1K", "M1V", "K2V", "V3K"]
    assert columns["log_odds"] == pytest.approx(np.log([5, 2.5, 2, 1 / 6]))
    assert list(found.to_pandas().columns) == list(columns)


@pytest.mark.parametrize("sequence", ["", " ", "mkt", "MK1", "MK-V", "MÄ"])
def test_what_is_no_sequence(sequence: str) -> None:
    with pytest.raises(bertscope.InvalidArgument, match="one-letter codes"):
        residues_of(sequence)


def test_letters_are_taken_once() -> None:
    assert checked_letters("VKVK") == "VK"
    with pytest.raises(bertscope.InvalidArgument, match="capital"):
        checked_letters(["v"])


def test_the_heat_map_marks_what_is_there(found: Substitutions, tmp_path: Path) -> None:
    figure = bertscope.plot_substitutions(found)
    (axes,) = (axes for axes in figure.axes if axes.images)
    assert axes.images[0].get_array().shape == (2, 3)
    assert axes.lines[0].get_xydata().tolist() == [[1.0, 0.0], [2.0, 1.0]]
    long = Substitutions("K" * 800, "KV", np.zeros((2, 800)), np.zeros(800), found.provenance)
    assert "80 more residues" in bertscope.plot_substitutions(long)._suptitle.get_text()
    bertscope.save_substitutions(found, tmp_path / "map.svg", dark=True)
    assert (tmp_path / "map.svg").stat().st_size > 1000
