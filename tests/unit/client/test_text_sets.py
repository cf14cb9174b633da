"""Sets of texts: critical regions, files of them, accuracies by group, and two models side by side."""

from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope.questions.scores.comparison import read_compared_sets
from bertscope.questions.scores.inputs import asked_sets
from bertscope.rpc.sections import EAGER_TEXTS
from bertscope.v1 import cloze_scores_pb2 as scores_pb2
from bertscope.values.bootstrap import mcnemar
from bertscope.values.intervals import mean_interval, ratio_interval, wilson_interval
from bertscope_workbench.plots.text_sets import MAX_GROUPS

from tests.support.broken_replies import refusals
from tests.support.descriptions import PROVENANCE
from tests.support.text_sets import comparison


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


@pytest.mark.slow
def test_the_interval_of_a_mean_over_groups() -> None:
    numbers = np.random.default_rng(3)
    one, other = numbers.normal(0.2, 0.1, 100), numbers.normal(0.4, 0.3, 50)
    # One group is the mean of ratio_interval with ones below; several add their variances.
    plain = mean_interval([one], (-1.0, 1.0), seed=5)
    ratio = ratio_interval(one, np.ones(100), (-1.0, 1.0), seed=6)
    assert plain is not None
    assert ratio is not None
    assert plain == pytest.approx(ratio, abs=2e-3)
    both = mean_interval([one, other], (-1.0, 1.0))
    assert both is not None
    error = np.sqrt(one.var(ddof=1) / 100 + other.var(ddof=1) / 50) / 2
    assert both.high - both.low == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert mean_interval([one, other[:1]], (-1.0, 1.0)) is None
    # Values that are all alike: as one of ratio_interval.
    assert mean_interval([np.ones(9)], (-1.0, 1.0)) == pytest.approx(ratio_interval(np.ones(9), np.ones(9), (-1.0, 1.0)))
    assert mean_interval([one[:4]], (-1.0, 1.0)) is None


REGIONS = [
    ["The keys are old.", "The keys is old."],
    ["The old keys are.", "The keys are."],
    ["The keys are.", "The old keys are."],
    ["Who ate?", "Who ate it?"],
    ["The cat sat.", "The cat sat."],
    ["one", "two", "three"],
    ["a  b\tc", "a x c"],
    ["a", "a b"],
    ["a a", "a a a"],
]


def regions(texts: Any) -> list[str]:
    found = bertscope.TextSet(texts).critical_regions()
    return [given.text[start:end] for given in found.texts for start, end, _ in given.parts]  # type: ignore[union-attr]


def test_requests(stored) -> None:
    for given in (("a", "b"), [("a", "b")], bertscope.TextSet(["a", "b"]), [bertscope.TextSet(["a", "b"])]):
        (asked,) = asked_sets(given, critical_region=False).items
        assert [text.text for text in asked.message.texts] == ["a", "b"]
    (marked,) = asked_sets([bertscope.TextSet(["a b", "a c"], 1, ["x", "x", "y"])], critical_region=True).items
    many = asked_sets((("a", "b") for _ in range(3)), critical_region=False)
    stored(
        critical_regions=[regions(texts) for texts in REGIONS],
        message=marked.message,
        many=[many.total, len(list(many.items)), asked_sets([("a", "b")] * EAGER_TEXTS, critical_region=False).total],
        refused=[
            lambda: regions([("a", "b"), "c"]),
            lambda: regions(["a b", bertscope.conditional("a", "b")]),
            lambda: asked_sets(7, critical_region=False),  # type: ignore[arg-type]
            lambda: asked_sets([("a", "b", "c")], critical_region=False),  # type: ignore[list-item]
            lambda: asked_sets([("a", 7)], critical_region=False),  # type: ignore[list-item]
            lambda: asked_sets([("a", "b")], critical_region="yes"),  # type: ignore[arg-type]
            lambda: bertscope.TextSet("ab"),
            lambda: bertscope.TextSet(["a", "b"], -1),
            lambda: bertscope.TextSet(["a", "b"], 0, [7]),  # type: ignore[list-item]
        ],
    )


def test_accuracies_by_group(stored) -> None:
    found, theirs = comparison("rrrtwrrr"), comparison("rrwwwrrr", model="models/other")
    many = comparison("r" * (MAX_GROUPS + 3), groups=lambda index: (f"g{index}",))
    asked = list(asked_sets([("a", "b")], critical_region=False).items)
    compared = scores_pb2.ComparedSet(log_likelihoods=[-4, -5], scored_pieces=[2, 2], outcome=1)
    stored(
        whole=found.accuracy(),
        by_group=found.by_group(),
        shown=repr(found),
        set=found.sets[0],
        frame=found.to_pandas(),
        frame_of_sets=found.to_pandas("set"),
        figure=workbench.plot_accuracy(found),
        one_group=workbench.plot_accuracy(comparison("rw", groups=lambda index: ("a",))),
        of_two_models=workbench.plot_accuracy(found, theirs, dark=True),
        of_very_many=workbench.plot_accuracy(many).get_suptitle(),
        nothing=[bertscope.TextComparison(()).accuracy(), lambda: workbench.plot_accuracy(bertscope.TextComparison(()))],
        unknown=lambda: found.accuracy("c"),
        broken=refusals(
            lambda messages: read_compared_sets(asked, *messages),
            scores_pb2.CompareTextsResponse(results=[compared], provenance=PROVENANCE),
        ),
    )


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    row = '{{"sentence_good": "good {0}", "sentence_bad": "bad {0}", "field": "syntax", "UID": "u{0}", "pairID": "{0}"}}\n'
    files = {
        "blimp/causative.jsonl": "".join(map(row.format, range(3))),
        "blimp/b.tsv": "good\tbad\nx\ty\n",
        "blimp/readme.md": "no",
        "pairs.tsv": "good\tbad\tnumber\tkind\nx\ty\tplural\tPP\nv\tw\tsingular\tnone\n",
        "quotes.tsv": 'good\tbad\tx\ty\na\tb\tp, q\tr\na\tb\tp\tq, r\na\tb\t"p\tr\n',
        "pairs.csv": "good,bad\nx,y\n",
        "empty/none.md": "",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    read, blimp = workbench.read_sets, "blimp/causative.jsonl"
    both, crossed = read("blimp"), read("pairs.tsv", ["number,kind", "number"])
    stored(
        blimp=list(read(blimp)),
        by_pair=[one.groups for one in read(blimp, "pairID", limit=2)],
        without_groups=[one.groups for one in read(blimp, ())],
        pairs=list(workbench.read_pairs(blimp)),
        folder=[[file.name, line, one.groups] for file, line, one in zip(both.paths, both.lines, both, strict=True)],
        crossed=[[one.groups for one in crossed], crossed.values],
        of_pairs=[one.groups for one in read("pairs.tsv", "number , kind")],
        quoted=[one.groups for one in read("quotes.tsv", "x,y")],
        refused=[
            lambda: read("pairs.tsv", "number,tense"),
            lambda: read("pairs.csv", "paradigm"),
            lambda: read("empty"),
            lambda: read("nowhere.csv"),
        ],
    )


def test_two_models_are_compared_set_by_set(stored) -> None:
    ours, theirs = comparison("r" * 40 + "w" * 10 + "t" * 10), comparison("r" * 25 + "w" * 30 + "r" * 5)
    found, same = ours.against(theirs), ours.against(ours)
    assert found.p == mcnemar(5, 15)
    assert found.interval is not None and found.interval.low < found.difference < found.interval.high
    # 60 equal sets, with one that was won and one that was lost (Bonett and Price 2012).
    assert same.interval == pytest.approx((-1.96 / 62 * 2**0.5, 1.96 / 62 * 2**0.5), rel=0.03)
    stored(found=found, of_a_group=ours.against(theirs, "b0").sets, same=same, refused=lambda: ours.against(comparison("r")))
