"""Attributions to words on the command line and in figures."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attribution import words as words_module
from bertscope_workbench.command.options.targets import TargetOptions
from bertscope_workbench.command.views.word_attribution import document, print_attribution
from bertscope_workbench.plots.word_attribution import MAX_LINES
from bertscope_workbench.readers import files
from matplotlib.patches import FancyBboxPatch

from tests.support.stored_outputs import outcome, printed

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


INTERACTIONS = np.array([[0, 0.5, -2], [0.5, 0, 1], [-2, 1, 0]], np.float32)
TARGETS = [
    (bertscope.Answer("are", scale="log_probability"), ""),
    (bertscope.TextLabel(other="bad"), "good"),
    (bertscope.WordLabel((0, 3), "B-LOC"), "B-LOC"),
    (bertscope.PassageAnswer((1, 2)), ""),
    (bertscope.TextValue(), ""),
    (bertscope.SimilarTo(("a", "b")), ""),
    (bertscope.NextSentence(), ""),
]


def shown(found: Any, width: int = 100) -> str:
    return printed(print_attribution, found, width=width)


def test_words_with_their_values(stored) -> None:
    more = {"method": "occlusion", "rest": -0.25, "truncated_tokens": 3, "error": 0.004}
    pair = attribution(("Who sat?", "The cats sat."), ("cats", "Who", "?"), target=bertscope.PassageAnswer((4, 8)))
    stored(
        printed=shown(attribution()),
        wrapped=shown(attribution(**SAMPLED), 24),
        of_few_pairs=shown(attribution(**SAMPLED | {"pairs": 4})),
        what_does_not_add_up=shown(attribution(values=(0.5, 0.2, 0.01), **more)),
        of_one_run=shown(attribution(method="frozen", evaluations=1)).splitlines()[3],
        interactions=shown(attribution(interactions=INTERACTIONS)),
        pair=shown(pair).splitlines()[1],
        pieces=shown(attribution("unplayable", ("un", "play", "able"))).splitlines()[1],
        targets=[shown(attribution(target=target, label=label)).splitlines()[0] for target, label in TARGETS],
        document=document(attribution(**SAMPLED)),
        figure=attribution().plot(),
        dark=attribution(**SAMPLED).plot(dark=True),
        interactions_as_a_matrix=bertscope.plot_word_attribution(attribution(interactions=INTERACTIONS)),
    )


def test_options_name_the_number(stored) -> None:
    options: list[tuple[dict[str, Any], Any]] = [
        ({"answer": "are", "other": "is", "mask": 1}, TEXT),
        ({"label": "good", "score_scale": "probability"}, TEXT),
        ({"top_label": True, "other": "bad"}, TEXT),
        ({"word_label": "Paris=LOC"}, "In Paris."),
        ({"word_label": "0-2"}, "In Paris."),
        ({"answer_span": "the mat"}, ("Where?", "On the mat.")),
        ({"value": True}, TEXT),
        ({"similar_to": "b"}, TEXT),
        ({"next_sentence": True}, ("a", "b")),
        ({"word_label": "a"}, "a b a"),
        ({"word_label": "Par"}, "In Paris."),
        ({"answer_span": "mat"}, "On the mat."),
        ({"value": True, "other": "b"}, TEXT),
        ({"answer": "b", "value": True}, TEXT),
        ({"label": "b", "mask": 1}, TEXT),
        ({"value": True, "score_scale": "probability"}, TEXT),
        ({}, TEXT),
    ]
    rows = {"text": "a [MASK]", "answer": "b", "other": "c"}, {"text": "a", "text_pair": "b", "label": "good"}
    given = [files.ATTRIBUTED.item(row) for row in rows]
    stored(
        targets=[
            outcome(lambda given=given, text=text: TargetOptions(**given).of("inputs[0]", text)) for given, text in options
        ],
        of_lines=[
            TargetOptions(score_scale=scale).of("inputs[0]", *row)
            for scale, row in zip(("probability", None), given, strict=True)
        ],
        columns=[
            outcome(lambda own=own: TargetOptions().of("inputs[0]", "a", own)) for own in ({}, {"answer": "a", "label": "b"})
        ],
    )
