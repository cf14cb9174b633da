"""Attributions to words on the command line and in figures."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attribution import words as words_module
from bertscope_workbench.command.app import run
from bertscope_workbench.command.options.targets import TargetOptions
from bertscope_workbench.command.views.output import json_text
from bertscope_workbench.command.views.word_attribution import document, print_attribution
from bertscope_workbench.plots.word_attribution import MAX_LINES
from bertscope_workbench.readers import files
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch
from rich.console import Console

PROVENANCE = bertscope.Provenance("models/m", "sha256:0", "torch", "cpu", "fp32", {}, "zero_based")
TEXT = "The $keys$ [MASK] old, $x$."


def attribution(text: Any = TEXT, words: Any = ("The", "$keys$", "old"), values: Any = (0.5, 2.0, -1.0), **fields: Any) -> Any:
    units, place = list[Any](), [0, 0]
    for number, word in enumerate(words):
        segment = int(not isinstance(text, str) and word not in text[0][place[0] :])
        one = text if isinstance(text, str) else text[segment]
        start = one.index(word, place[segment])
        place[segment] = start + len(word)
        units.append(bertscope.Token(word, None, start, start + len(word), False, number, segment, ()))
    given: dict[str, Any] = {"value": 1.2, "value_absent": -0.3, "rest": 0.0, "evaluations": 1024, "steps": 0, "pairs": 0}
    given |= {"sums": np.zeros(0), "sums_of_squares": np.zeros(0), "interactions": None, "label": "", "tokens": 8}
    given |= {"truncated_tokens": 0, "method": "shapley", "absent": "mask", "provenance": PROVENANCE, "error": None}
    target = bertscope.Answer("are", "is")
    return bertscope.WordAttribution(
        text=text, units=tuple(units), values=np.array(values, float), **{"target": target} | given | fields
    )


SAMPLED = {"pairs": 5, "sums": np.array([2.5, 10.0, -5.0]), "sums_of_squares": np.array([1.75, 20.0, 5.0])}


@pytest.fixture(autouse=True)
def few_words_have_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "FEWEST_UNITS", 1)


def printed(found: Any, width: int = 100, **options: Any) -> str:
    screen = Console(file=io.StringIO(), width=width, **options)
    print_attribution(screen, found)
    return screen.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_each_word_has_its_signed_value_below() -> None:
    lines = printed(attribution()).splitlines()
    assert lines[:4] == [
        'logit of "are" minus that of "is"',
        "The    $keys$  [MASK]  old    ,  $x$.",
        "+0.50  +2.00           -1.00",
        "sum 1.50 = 1.20 + 0.30 (1,024 texts)",
    ]
    assert lines[4] == "shapley, absent words: mask, models/m"
    assert "\x1b[36m" in printed(attribution(), force_terminal=True)
    plain = printed(attribution(), force_terminal=True, no_color=True)
    assert "\x1b[36m" not in plain
    assert "-1.00" in plain


def test_words_are_wrapped_to_the_screen() -> None:
    lines = printed(attribution(**SAMPLED), 24).splitlines()
    assert lines[1:7] == ["The    $keys$  [MASK]", "+0.50  +2.00", "±0.50  ±0.00", "old    ,  $x$.", "-1.00", "±0.00"]
    assert "fewer than 5 pairs, or 7 words" in printed(attribution(**SAMPLED | {"pairs": 4}))


def test_what_does_not_add_up_is_told() -> None:
    found = attribution(method="occlusion", rest=-0.25, truncated_tokens=3, values=(0.5, 0.2, 0.01), error=0.004)
    lines = printed(found)
    assert "sum 0.710 - rest 0.250 = 1.200 + 0.300 (1,024 texts)" in lines
    assert "+0.010" in lines
    assert "3 tokens were cut away" in lines
    assert "error 0.40 % of the difference" in lines
    assert "(1 run)" in printed(attribution(method="frozen", evaluations=1))


def test_interactions_are_named_strongest_first() -> None:
    values = np.array([[0, 0.5, -2], [0.5, 0, 1], [-2, 1, 0]], np.float32)
    out = printed(attribution(interactions=values))
    assert out.index("-2.000") < out.index("+1.000") < out.index("+0.500")
    assert [word in out.split("-2.000")[0].splitlines()[-1] for word in ("The", "old")] == [True, True]


def test_texts_of_pairs_and_pieces_are_read_in_order() -> None:
    found = attribution(("Who sat?", "The cats sat."), ("cats", "Who", "?"), target=bertscope.PassageAnswer((4, 8)))
    assert printed(found).splitlines()[1].split() == ["Who", "sat", "?", "/", "The", "cats", "sat."]
    found = attribution("unplayable", ("un", "play", "able"))
    assert printed(found).splitlines()[1].split() == ["un", "play", "able"]


@pytest.mark.parametrize(
    ("target", "label", "said"),
    [
        (bertscope.Answer("are", scale="log_probability"), "", 'log-probability of "are"'),
        (bertscope.TextLabel(other="bad"), "good", 'logit of "good" minus that of "bad"'),
        (bertscope.WordLabel((0, 3), "B-LOC"), "B-LOC", 'logit of "B-LOC" at 0-3'),
        (bertscope.PassageAnswer((1, 2)), "", "logit of the answer at 1-2"),
        (bertscope.TextValue(), "", "value"),
        (bertscope.SimilarTo(("a", "b")), "", 'cosine with "a / b"'),
        (bertscope.NextSentence(), "", "logit of the second text following the first"),
    ],
)
def test_the_number_is_named(target: Any, label: str, said: str) -> None:
    assert printed(attribution(target=target, label=label)).splitlines()[0] == said


def test_the_document_has_a_record_for_each_word() -> None:
    found = json.loads(json_text(document(attribution(**SAMPLED))))
    assert [word["word"] for word in found["words"]] == ["The", "$keys$", "old"]
    assert found["words"][1]["value"] == found["words"][1]["high"] == 2.0
    assert (found["target"], found["evaluations"]) == ('logit of "are" minus that of "is"', 1024)
    assert found["provenance"]["model"] == "models/m"
    assert json.loads(json_text(document(attribution())))["words"][0]["low"] is None


@pytest.mark.parametrize(
    ("options", "text", "target"),
    [
        ({"answer": "are", "other": "is", "mask": 1}, TEXT, bertscope.Answer("are", "is", 1)),
        ({"label": "good", "score_scale": "probability"}, TEXT, bertscope.TextLabel("good", scale="probability")),
        ({"top_label": True, "other": "bad"}, TEXT, bertscope.TextLabel(other="bad")),
        ({"word_label": "Paris=LOC"}, "In Paris.", bertscope.WordLabel((3, 8), "LOC")),
        ({"word_label": "0-2"}, "In Paris.", bertscope.WordLabel((0, 2))),
        ({"answer_span": "the mat"}, ("Where?", "On the mat."), bertscope.PassageAnswer((3, 10))),
        ({"value": True}, TEXT, bertscope.TextValue()),
        ({"similar_to": "b"}, TEXT, bertscope.SimilarTo("b")),
        ({"next_sentence": True}, ("a", "b"), bertscope.NextSentence()),
    ],
)
def test_options_name_the_number(options: Any, text: Any, target: Any) -> None:
    assert TargetOptions(**options).of("inputs[0]", text) == target


@pytest.mark.parametrize(
    ("options", "text", "words"),
    [
        ({"word_label": "a"}, "a b a", "'a' 2 times"),
        ({"word_label": "Par"}, "In Paris.", "'Par' 0 times"),
        ({"answer_span": "mat"}, "On the mat.", "single text"),
    ],
)
def test_a_place_that_is_not_one_is_refused(options: Any, text: Any, words: str) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=words):
        TargetOptions(**options).of("inputs[0]", text)


def test_a_line_may_name_its_number() -> None:
    row = files.ATTRIBUTED.item({"text": "a [MASK]", "answer": "b", "other": "c"})
    assert row.text == "a [MASK]"
    assert TargetOptions(score_scale="probability").of("inputs[0]", *row) == bertscope.Answer("b", "c", None, "probability")
    row = files.ATTRIBUTED.item({"text": "a", "text_pair": "b", "label": "good"})
    assert (row.text, TargetOptions().of("inputs[0]", *row)) == (("a", "b"), bertscope.TextLabel("good"))
    for own in ({}, {"answer": "a", "label": "b"}):
        with pytest.raises(bertscope.InvalidArgument, match="column"):
            TargetOptions().of("inputs[0]", "a", own)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a"], "name the score: --answer"),
        (["a", "--answer", "b", "--value"], "--answer and --value exclude each other"),
        (["a", "--value", "--other", "b"], "--other goes with --answer"),
        (["a", "--label", "b", "--mask", "1"], "--mask goes with --answer"),
        (["a", "--value", "--as", "probability"], "--as does not go with --value"),
        (["a", "b", "--value", "--plot", "a.svg"], "--plot goes with exactly one TEXT"),
        (["a", "--value", "--plot", "a.gif"], "a.gif: the name must end with"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(arguments: Any, words: str, capsys: Any) -> None:
    assert run(["attribute", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_words_and_parts_name_each_other(capsys: Any) -> None:
    helps = []
    for command in ("lens", "attribute"):
        run([command, "--help"])
        helps.append(" ".join(capsys.readouterr().out.split()))
    assert "`bertscope attribute` shows which words" in helps[0]
    assert "`bertscope lens --attribute` shows which parts" in helps[1]


@pytest.mark.parametrize("dark", [False, True])
def test_the_figure_has_the_words_on_coloured_grounds(dark: bool, tmp_path: Any) -> None:
    figure = attribution().plot(dark=dark)
    (axes,) = figure.axes
    grounds = [(to_hex(patch.get_facecolor()), patch.get_alpha()) for patch in axes.patches]
    assert grounds == [("#2470b3", pytest.approx(0.175)), ("#2470b3", pytest.approx(0.7)), ("#d9711c", pytest.approx(0.35))]
    assert [text.get_text() for text in axes.texts] == [
        "The",
        "+0.50",
        r"\$keys\$",
        "+2.00",
        "[MASK]",
        "old",
        "-1.00",
        ",",
        r"\$x\$.",
    ]
    assert 'logit of "are" minus that of "is"\nsum 1.50 = 1.20 + 0.30' in figure.get_suptitle()
    assert to_hex(figure.get_facecolor()) == ("#11181f" if dark else "#ffffff")
    bertscope.save_word_attribution(attribution(), tmp_path / "a.svg", dark=dark)
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    with pytest.raises(ValueError, match="must end with"):
        bertscope.save_word_attribution(attribution(), tmp_path / "a.gif")


def test_the_words_of_a_figure_do_not_overlap_and_end_in_it() -> None:
    words = [f"word{'y' * (number % 9)}" for number in range(60)]
    values = np.linspace(-1, 1, 60)
    sampled = {"pairs": 5, "sums": 5 * values, "sums_of_squares": 5 * values**2 + 1}
    figure = bertscope.plot_word_attribution(attribution(" ".join(words), words, values, **sampled))
    patches = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
    boxes = sorted((round(patch.get_y(), 3), patch.get_x(), patch.get_x() + patch.get_width()) for patch in patches)
    assert len({top for top, *_ in boxes}) > 3
    for (top, _, right), (below, left, _) in pairwise(boxes):
        assert top < below or right <= left
    assert max(right for *_, right in boxes) <= figure.get_figwidth()
    assert any(text.get_text().startswith("±") for text in figure.axes[0].texts)
    many = ["abcdefghij"] * 400
    figure = bertscope.plot_word_attribution(attribution(" ".join(many), many, np.ones(400)))
    assert "more lines are not shown" in figure.get_suptitle()
    assert len({round(patch.get_y(), 3) for patch in figure.axes[0].patches}) == MAX_LINES  # type: ignore[attr-defined]


def test_the_figure_of_interactions_is_a_matrix_around_zero() -> None:
    values = np.array([[0, 0.5, -2], [0.5, 0, 1], [-2, 1, 0]], np.float32)
    figure = bertscope.plot_word_attribution(attribution(interactions=values))
    matrix = figure.axes[1]
    np.testing.assert_allclose(matrix.images[0].get_array(), values)
    assert matrix.images[0].get_clim() == (-2, 2)
    assert [label.get_text() for label in matrix.get_yticklabels()] == ["The", r"\$keys\$", "old"]
    assert len(matrix.texts) == 6
