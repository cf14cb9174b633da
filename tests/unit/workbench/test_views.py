"""What the command prints of sweeps, traces, words and attention, with its styles, and their figures and pages."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope import CurvePoint, HeadEffect, Provenance, SweepStart, SweepSummary, SweepTable
from bertscope.questions.attribution import words as words_module
from bertscope.v1 import ablation_sites_pb2, site_pb2
from bertscope_workbench.command.options.targets import TargetOptions
from bertscope_workbench.command.views.attention import document as attention_document
from bertscope_workbench.command.views.attention import print_maps, shares
from bertscope_workbench.command.views.sweep import print_sweep
from bertscope_workbench.command.views.trace import print_trace
from bertscope_workbench.command.views.word_attribution import document, print_attribution
from bertscope_workbench.plots import word_attribution
from bertscope_workbench.plots.attention_page import place_of
from bertscope_workbench.readers import files
from matplotlib.patches import FancyBboxPatch

from tests.support.drawn import Page, maps_of
from tests.support.stored_outputs import Name, outcome, printed
from tests.support.swept_tables import metric_effect
from tests.support.traces import assembler, effect, end, of, read, start

SUMMARY = SweepSummary(0, 0, 3000, 9000, 2.5, Provenance("models/m", "", "torch", "cpu", "fp32", {}, "zero_based"))


def table_of(differences: list[list[float]], metric: str = "accuracy", margin: float | None = 0.01) -> SweepTable:
    p = 0.04 if metric == "accuracy" else None
    effects = tuple(
        HeadEffect({layer: (head,)}, {metric: metric_effect(metric, value, margin, p)})
        for layer, row in enumerate(differences)
        for head, value in enumerate(row)
    )
    return SweepTable("zero", "heads", SweepStart({metric: 0.5}, len(effects), 7, 2, 1, 0), effects, (), SUMMARY)


DIFFERENCES = [[0.02, 0.005], [-0.03, 0.0]]


def shown_sweep(table: SweepTable, top: int = 10, width: int = 120) -> str:
    return printed(print_sweep, table, table.metric(), top, width=width)


def test_heads_that_are_equal_by_accuracy_are_ordered_by_the_other_metric() -> None:
    table, scores = table_of([[0.0, 0.0, 0.0]], margin=1), table_of([[0.3, -0.2, 0.7]], "score_difference")
    effects = [replace(one, metrics=one.metrics | two.metrics) for one, two in zip(table.effects, scores.effects, strict=True)]
    begun = SweepStart({"accuracy": 0.5, "score_difference": 2.0}, 3, 7, 0, 0, 0)
    shown = shown_sweep(replace(table, start=begun, effects=effects), width=200).splitlines()
    assert [line.split()[0] for line in shown if line[:3] == " 0:" or "is finer" in line] == ["of", "0:2", "0:0", "0:1"]


def test_sweeps_over_heads_and_layers(stored) -> None:
    heads, losses = table_of(DIFFERENCES), table_of(DIFFERENCES, "loss")
    layers = tuple(HeadEffect({layer: (0, 1)}, {"loss": metric_effect("loss", 0.1 * layer, 0.01)}) for layer in (1, 0))
    stored(
        heads=shown_sweep(heads),
        by_loss=shown_sweep(losses),
        the_middle_left_out=[Name(shown_sweep(heads, top)) for top in (3, 1, 0)],
        divergences=shown_sweep(table_of([[0.02, 0.5], [0.3, 0.1]], "divergence"), 2),
        a_map_without_room=[Name(shown_sweep(table, 0, 16)) for table in (heads, losses)],
        layers=shown_sweep(SweepTable("zero", "layers", SweepStart({"loss": 0.5}, 2, 7, 0, 0, 0), layers, (), SUMMARY)),
        ninety_percent=shown_sweep(replace(heads, confidence=0.9)),
        small_differences=shown_sweep(table_of([[0.0000123, 0.000001]], "loss", None)),
        nothing_but_zeros=shown_sweep(table_of([[0.0]])),
        nothing_at_all=shown_sweep(table_of([])),
    )


def test_why_there_is_no_interval(stored) -> None:
    table, found = table_of([[0.02, 0.005]], margin=None), {}
    for reason in ("too_few_items", "too_few_differ", "too_few_resamples"):
        effects = tuple(
            replace(effect, metrics={name: replace(metric, no_interval=reason) for name, metric in effect.metrics.items()})
            for effect in table.effects
        )
        found[reason] = shown_sweep(replace(table, effects=effects))
    stored(**found)


def test_a_curve_shows_its_first_and_its_last_point(stored) -> None:
    """A point takes one line, and names as many heads as there is room for."""

    def curve(mode: str, *points: CurvePoint) -> SweepTable:
        return SweepTable(mode, "heads", SweepStart({"accuracy": 0.5}, len(points), 7, 0, 0, 0), (), points, SUMMARY)

    points = (
        CurvePoint(({0: (number,)},), number, number / 10, {"accuracy": metric_effect("accuracy", -number / 100, 0.01)})
        for number in range(11)
    )
    every = tuple({0: (name,)} for name in range(20))
    wide = curve("zero", CurvePoint(every, 20, 0.5, {"accuracy": metric_effect("accuracy", -0.1, 0.01)}))
    stored(
        curve=shown_sweep(curve("mean", *points), 3), widths=[Name(shown_sweep(wide, width=width)) for width in (120, 80, 66)]
    )


EFFECTS = np.array([[0.08, 7.6, -0.4, 0.0], [0.2, 4.0, 6.4, 0.0], [0.0, 0.0, 8.0, 0.0]])


def grid(values=EFFECTS, **given):
    effects = [of(effect(layer, position + 1, float(value))) for (layer, position), value in np.ndenumerate(values)]
    return read([start(len(effects), **given), *effects, end()], assembler()).end()


def paths(count=6):
    receivers = [
        ablation_sites_pb2.PathReceiver(part=ablation_sites_pb2.PathReceiver.PART_KEY, layer=3, head=head) for head in range(4)
    ]
    sent = [
        of(effect(0, None, float(head), unit=head, count=count, receiver=receiver, site=site_pb2.SITE_HEAD_OUTPUT))
        for head, receiver in enumerate(receivers)
    ]
    return read([start(4, pairs=count, positions=0), *sent, end()], assembler(count, paths=True)).end()


def test_traces(stored) -> None:
    small = grid(EFFECTS / 20, direction=0, corrupted=4.0)
    stored(
        printed=printed(print_trace, grid(), 14),
        narrow=printed(print_trace, grid(), 14, width=20),
        without_another_run=printed(print_trace, small, 14),
        zeros=printed(print_trace, grid(0 * EFFECTS), 14, width=20),
        paths=printed(print_trace, paths(), 2),
        without_intervals=printed(print_trace, paths(2), 2),
        figure=workbench.plot_trace(grid()),
        dark=workbench.plot_trace(grid(), dark=True),
        figure_of_paths=workbench.plot_trace(paths()),
        dark_paths=workbench.plot_trace(paths(), dark=True),
    )


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


def test_the_words_of_a_figure_do_not_overlap_and_end_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"word{'y' * (number % 9)}" for number in range(60)]
    values = np.linspace(-1, 1, 60)
    sampled = {"pairs": 5, "sums": 5 * values, "sums_of_squares": 5 * values**2 + 1}
    figure = workbench.plot_word_attribution(attribution(" ".join(words), words, values, **sampled))
    patches = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
    boxes = sorted((round(patch.get_y(), 3), patch.get_x(), patch.get_x() + patch.get_width()) for patch in patches)
    assert len({top for top, *_ in boxes}) > 3
    for (top, _, right), (below, left, _) in pairwise(boxes):
        assert top < below or right <= left
    assert max(right for *_, right in boxes) <= figure.get_figwidth()
    assert any(text.get_text().startswith("±") for text in figure.axes[0].texts)
    monkeypatch.setattr(word_attribution, "MAX_LINES", 3)
    figure = workbench.plot_word_attribution(attribution(" ".join(words), words, values))
    assert "more lines are not shown" in figure.get_suptitle()
    assert len({round(patch.get_y(), 3) for patch in figure.axes[0].patches}) == 3  # type: ignore[attr-defined]


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


def shown_words(found: Any, width: int = 100) -> str:
    return printed(print_attribution, found, width=width)


def test_words_with_their_values(stored) -> None:
    more = {"method": "occlusion", "rest": -0.25, "truncated_tokens": 3, "error": 0.004}
    pair = attribution(("Who sat?", "The cats sat."), ("cats", "Who", "?"), target=bertscope.PassageAnswer((4, 8)))
    stored(
        printed=shown_words(attribution()),
        wrapped=shown_words(attribution(**SAMPLED), 24),
        of_few_pairs=shown_words(attribution(**SAMPLED | {"pairs": 4})),
        what_does_not_add_up=shown_words(attribution(values=(0.5, 0.2, 0.01), **more)),
        of_one_run=shown_words(attribution(method="frozen", evaluations=1)).splitlines()[3],
        interactions=shown_words(attribution(interactions=INTERACTIONS)),
        pair=shown_words(pair).splitlines()[1],
        pieces=shown_words(attribution("unplayable", ("un", "play", "able"))).splitlines()[1],
        targets=[shown_words(attribution(target=target, label=label)).splitlines()[0] for target, label in TARGETS],
        document=document(attribution(**SAMPLED)),
        figure=workbench.plot_word_attribution(attribution()),
        dark=workbench.plot_word_attribution(attribution(**SAMPLED), dark=True),
        interactions_as_a_matrix=workbench.plot_word_attribution(attribution(interactions=INTERACTIONS)),
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
        ({"answer": "b", "value": True}, TEXT),
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


TOKENS = ["[CLS]", "the", "cat", "[SEP]"]


def norms_of(layers: tuple[int, ...] = (2, 0), heads: tuple[int, ...] = (1, 3)) -> bertscope.AttentionMaps:
    maps = maps_of(TOKENS, layers, heads)
    return replace(maps, attention=maps.attention * np.float32(7), quantity="norms")


def rollout_of(layers: tuple[int, ...] = (2, 0)) -> bertscope.AttentionMaps:
    return replace(maps_of(TOKENS, layers, (0,)), quantity="rollout")


def test_a_page_of_some_heads_shows_itself_and_is_saved(tmp_path: Path):
    maps = maps_of(["[CLS]", "</script><img src=x onerror=hurt()>", "[SEP]"], (2, 0), (1, 3))
    page = workbench.attention_page(maps, 0, [3], title="Two tokens")
    page.save(tmp_path / "page")
    assert (tmp_path / "page").read_text("utf-8") == page.html
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<img" not in shown
    assert len(repr(page)) < 80
    with pytest.raises(KeyError):
        workbench.attention_page(maps, layer=1)


def test_quantities_beyond_weights(stored) -> None:
    zeros = replace(norms_of(), attention=np.zeros((2, 2, 4, 4), np.float32))
    assert not shares(zeros).attention.any()
    every = {
        "weights": maps_of(TOKENS, heads=(1, 3)),
        "norms": norms_of(),
        "rollout": rollout_of(),
        "one layer": rollout_of((2,)),
    }
    pages = {}
    for name, maps in every.items():
        data = json.loads(Page(workbench.attention_page(maps).html).text("script", id="data"))
        pages[name] = {key: value for key, value in data.items() if key != "weights"}
    stored(
        printed="\n".join(printed(print_maps, maps, width=120) for maps in every.values()),
        pages=pages,
        names=[place_of(norms_of(), 2, 1), place_of(rollout_of(), 2, 0)],
        document=attention_document(rollout_of((2,))),
        figure=workbench.plot_attention(rollout_of()),
    )
