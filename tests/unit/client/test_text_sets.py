"""Sets of texts: critical regions, files of them, accuracies by group, and two models side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.scores.comparison import read_compared_sets
from bertscope.questions.scores.sets import asked_sets
from bertscope.rpc.sections import EAGER_TEXTS
from bertscope.v1 import cloze_scores_pb2 as scores_pb2
from bertscope.values.bootstrap import mcnemar
from bertscope.values.intervals import mean_interval, ratio_interval, wilson_interval
from bertscope_workbench.plots.text_sets import MAX_GROUPS

from tests.support.descriptions import PROVENANCE
from tests.support.text_sets import comparison


def regions(*texts: str) -> list[str]:
    found = bertscope.TextSet(texts).critical_regions()
    return [given.text[start:end] for given in found.texts for start, end, _ in given.parts]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["The keys are old.", "The keys is old."], ["are", "is"]),
        (["The old keys are.", "The keys are."], ["old keys", "keys"]),
        (["The keys are.", "The old keys are."], ["keys", "old keys"]),
        (["Who ate?", "Who ate it?"], ["ate?", "ate it?"]),
        (["The cat sat.", "The cat sat."], ["sat.", "sat."]),
        (["one", "two", "three"], ["one", "two", "three"]),
        (["a  b\tc", "a x c"], ["b", "x"]),
        (["a", "a b"], ["a", "a b"]),
        (["a a", "a a a"], ["a", "a a"]),
    ],
)
def test_a_critical_region_is_what_differs(texts: list[str], expected: list[str]) -> None:
    assert regions(*texts) == expected
    assert [region in text for region, text in zip(expected, texts, strict=True)] == [True] * len(texts)


def test_what_has_no_critical_region() -> None:
    for texts in ([("a", "b"), "c"], ["a b", bertscope.conditional("a", "b")]):
        with pytest.raises(bertscope.InvalidArgument, match="single texts"):
            bertscope.TextSet(texts).critical_regions()  # type: ignore[arg-type]


def test_pairs_and_sets_become_messages() -> None:
    for given in (("a", "b"), [("a", "b")], bertscope.TextSet(["a", "b"]), [bertscope.TextSet(["a", "b"])]):
        (asked,) = asked_sets(given, critical_region=False).items
        assert [text.text for text in asked.message.texts] == ["a", "b"]
        assert (asked.message.right, list(asked.message.groups)) == (0, [])
    (asked,) = asked_sets([bertscope.TextSet(["a b", "a c"], 1, ["x", "x", "y"])], critical_region=True).items
    assert (asked.message.right, list(asked.message.groups)) == (1, ["x", "y"])
    assert [text.spans[0].start for text in asked.message.texts] == [2, 2]
    many = asked_sets((("a", "b") for _ in range(3)), critical_region=False)
    assert (many.total, len(list(many.items))) == (None, 3)
    assert asked_sets([("a", "b")] * EAGER_TEXTS, critical_region=False).total == EAGER_TEXTS


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: asked_sets(7, critical_region=False), "sets"),  # type: ignore[arg-type]
        (lambda: asked_sets([("a", "b", "c")], critical_region=False), r"sets\[0\]"),  # type: ignore[list-item]
        (lambda: asked_sets([("a", 7)], critical_region=False), r"sets\[0\].bad"),  # type: ignore[list-item]
        (lambda: asked_sets([("a", "b")], critical_region="yes"), "critical_region"),  # type: ignore[arg-type]
        (lambda: bertscope.TextSet("ab"), "texts"),
        (lambda: bertscope.TextSet(["a", "b"], -1), "right"),
        (lambda: bertscope.TextSet(["a", "b"], 0, [7]), "groups"),  # type: ignore[list-item]
    ],
)
def test_what_can_not_be_sent_is_refused_by_its_field(make: Any, words: str) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=words):
        make()


def test_replies_that_break_the_contract() -> None:
    asked = list(asked_sets([("a", "b")], critical_region=False).items)
    with pytest.raises(bertscope.InvalidReply, match="0 of 1"):
        read_compared_sets(asked, scores_pb2.CompareTextsResponse())
    reply = scores_pb2.CompareTextsResponse(results=[scores_pb2.ComparedSet()], provenance=PROVENANCE)
    with pytest.raises(bertscope.InvalidReply, match="0 of a set's 2"):
        read_compared_sets(asked, reply)


def test_accuracies_by_group() -> None:
    found = comparison("rrrtwrrr")
    whole = found.accuracy()
    assert (whole.sets, whole.right, whole.tied, whole.wrong, whole.accuracy) == (8, 6, 1, 1, 0.75)
    assert whole.mean_difference == pytest.approx((6 - 2) / 8)
    assert whole.interval == wilson_interval(6, 8)
    assert found.groups == ("a", "b0", "b1")
    assert [(group.group, group.sets, group.right) for group in found.by_group()] == [("a", 8, 6), ("b0", 4, 3), ("b1", 4, 3)]
    with pytest.raises(KeyError, match="b0"):
        found.accuracy("c")
    assert "accuracy 0.750" in repr(found)
    assert [one.scoring for one in found.sets[:1]] == ["original"]
    assert bertscope.TextComparison(()).accuracy().sets == 0


def test_tables() -> None:
    found = comparison("rtw")
    groups = found.to_pandas()
    assert groups["group"].fillna("").tolist() == ["", "a", "b0", "b1"]
    assert (groups["low"] <= groups["accuracy"]).all()
    sets = found.to_pandas("set")
    assert sets["outcome"].tolist() == ["right", "tie", "wrong"]
    assert sets["difference"].tolist() == [1.0, 0.0, -2.0]
    assert sets["groups"].tolist()[0] == "a|b0"
    assert sets["best_other"].tolist()[1] == "bad 1"
    assert "<table" in found._repr_html_()


def test_two_models_are_compared_set_by_set() -> None:
    ours, theirs = comparison("r" * 40 + "w" * 10 + "t" * 10), comparison("r" * 25 + "w" * 30 + "r" * 5)
    found = ours.against(theirs)
    assert (found.accuracy, found.baseline_accuracy) == (40 / 60, 30 / 60)
    assert (found.won, found.lost) == (15, 5)
    assert found.difference == pytest.approx(10 / 60)
    assert found.p == mcnemar(5, 15)
    assert found.interval is not None
    assert found.interval.low < found.difference < found.interval.high
    assert ours.against(theirs, "b0").sets == 30
    same = ours.against(ours)
    assert (same.difference, same.p) == (0.0, 1.0)
    # 60 equal sets, with one that was won and one that was lost (Bonett and Price 2012).
    assert same.interval == pytest.approx((-1.96 / 62 * 2**0.5, 1.96 / 62 * 2**0.5), rel=0.03)
    with pytest.raises(bertscope.InvalidArgument, match="other sets"):
        ours.against(comparison("r"))


def test_wilsons_interval() -> None:
    """The example of Newcombe 1998, table I, method 3."""
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson_interval(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)
    assert wilson_interval(0, 20) == pytest.approx((0, 0.1611), abs=1e-4)
    assert wilson_interval(1, 29) == pytest.approx((0.0061, 0.1718), abs=1e-4)
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert wilson_interval(20, 20).high == 1.0
    with pytest.raises(bertscope.InvalidArgument, match="confidence"):
        wilson_interval(1, 2, confidence=1.0)


def test_blimps_own_files_are_read(tmp_path: Path) -> None:
    rows = [
        {"sentence_good": f"good {n}", "sentence_bad": f"bad {n}", "field": "syntax", "UID": f"u{n}", "pairID": str(n)}
        for n in range(3)
    ]
    path = tmp_path / "causative.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    found = bertscope.read_sets(path)
    assert [one.texts for one in found] == [(f"good {n}", f"bad {n}") for n in range(3)]
    assert found[2].groups == ("syntax", "u2")
    assert bertscope.read_sets(path, "pairID", limit=2)[1].groups == ("1",)
    assert bertscope.read_sets(path, ())[0].groups == ()
    assert bertscope.read_pairs(path)[0] == ("good 0", "bad 0")
    (tmp_path / "b.tsv").write_text("good\tbad\nx\ty\n", encoding="utf-8")
    (tmp_path / "readme.md").write_text("no", encoding="utf-8")
    both = bertscope.read_sets(tmp_path)
    assert [(file.name, line) for file, line in zip(both.paths, both.lines, strict=True)][-1] == ("causative.jsonl", 3)
    assert both[0].groups == ()


def test_columns_of_groups_are_crossed(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("good\tbad\tnumber\tkind\nx\ty\tplural\tPP\nv\tw\tsingular\tnone\n", encoding="utf-8")
    found = bertscope.read_sets(path, ["number,kind", "number"])
    assert [one.groups for one in found] == [("plural, PP", "plural"), ("singular, none", "singular")]
    assert found.values == [{"number": "plural", "kind": "PP"}, {"number": "singular", "kind": "none"}]
    assert [one.groups for one in bertscope.read_pairs(path, groups="number , kind")] == [("plural, PP",), ("singular, none",)]
    with pytest.raises(bertscope.InvalidArgument, match="has no column 'tense'"):
        bertscope.read_pairs(path, groups="number,tense")
    path.write_text('good\tbad\tx\ty\na\tb\tp, q\tr\na\tb\tp\tq, r\na\tb\t"p\tr\n')
    assert [one.groups for one in bertscope.read_pairs(path, groups="x,y")] == [('"p, q", r',), ('p, "q, r"',), ('"""p", r',)]


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("good,bad\nx,y\n", encoding="utf-8")
    with pytest.raises(bertscope.InvalidArgument, match="has no column 'paradigm'"):
        bertscope.read_sets(path, "paradigm")
    (tmp_path / "empty").mkdir()
    with pytest.raises(bertscope.InvalidArgument, match="has no file to read"):
        bertscope.read_sets(tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        bertscope.read_sets(tmp_path / "nowhere.csv")


def test_a_figure_has_a_row_for_each_group() -> None:
    ours, theirs = comparison("rrrtwrrr"), comparison("rrwwwrrr", model="models/other")
    (axes,) = bertscope.plot_accuracy(ours).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a (8)", "b0 (4)", "b1 (4)", "all (8)"]
    dots = [line for line in axes.lines if line.get_marker() == "o" and line.get_markerfacecolor() != "none"]
    np.testing.assert_allclose([dot.get_xdata()[0] for dot in dots], [75, 75, 75, 75])
    rings = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    assert len(rings) == 3
    figure = bertscope.plot_accuracy(ours, theirs, dark=True)
    names = {text.get_text() for text in figure.legends[0].get_texts()}
    assert names == {"models/fake", "models/other", "chance"}
    many = comparison("r" * (MAX_GROUPS + 3), groups=lambda index: (f"g{index}",))
    assert "3 more groups" in bertscope.plot_accuracy(many).get_suptitle()


def test_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(bertscope.InvalidArgument, match="no set"):
        bertscope.plot_accuracy(bertscope.TextComparison(()))
    with pytest.raises(ValueError, match="must end with"):
        bertscope.save_accuracy(comparison("r"), tmp_path / "a.gif")
    bertscope.save_accuracy(comparison("r"), tmp_path / "a.png", title="mine")
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_interval_of_a_mean_over_groups() -> None:
    numbers = np.random.default_rng(3)
    one, other = numbers.normal(0.2, 0.1, 300), numbers.normal(0.4, 0.3, 50)
    # One group is the mean of ratio_interval with ones below; several add their variances.
    plain = mean_interval([one], (-1.0, 1.0), seed=5)
    ratio = ratio_interval(one, np.ones(300), (-1.0, 1.0), seed=6)
    assert plain is not None
    assert ratio is not None
    assert plain == pytest.approx(ratio, abs=2e-3)
    both = mean_interval([one, other], (-1.0, 1.0))
    assert both is not None
    error = np.sqrt(one.var(ddof=1) / 300 + other.var(ddof=1) / 50) / 2
    assert both.high - both.low == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert mean_interval([one, other[:1]], (-1.0, 1.0)) is None
    # Values that are all alike: as one of ratio_interval.
    assert mean_interval([np.ones(9)], (-1.0, 1.0)) == pytest.approx(ratio_interval(np.ones(9), np.ones(9), (-1.0, 1.0)))
    assert mean_interval([one[:4]], (-1.0, 1.0)) is None
