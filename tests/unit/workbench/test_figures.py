"""Figures of descriptions, heads, inspections, relations, trees, curves and sweeps: what they show, on light and dark pages."""

import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope import HeadEffect, Provenance, SweepStart, SweepTable, Token
from bertscope.questions.attention.description import read_description
from bertscope.questions.attention.feature_scores import read_feature_scores
from bertscope.questions.attention.relation_scores import read_relation_scores
from bertscope_workbench import TreeScores
from bertscope_workbench.command.views.relations import print_relations
from bertscope_workbench.plots import figures, themed_figure
from bertscope_workbench.plots import theme as themes
from bertscope_workbench.plots.attention_head import MAX_LABELS
from bertscope_workbench.plots.layer_curves import MARKS
from bertscope_workbench.plots.layer_curves import curve as curve_of_layers
from bertscope_workbench.plots.relations import MAX_RELATIONS
from bertscope_workbench.plots.sweeps import FAINT_SHARE
from bertscope_workbench.plots.theme import DARK, LIGHT
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb

from tests.support.descriptions import Numbers, description, feature_scores, relation_scores
from tests.support.drawn import maps_of
from tests.support.stored_outputs import printed
from tests.support.swept_tables import HEADS, SUMMARY, curve, metric_effect, ranking, table_of

DESCRIBED = read_description(description(Numbers(4, 3, 4), distances=True))


def test_descriptions(stored) -> None:
    message = description(Numbers(4, 3, 4), layers=[7, 2, 9])
    for pattern in message.patterns:
        pattern.texts[:4] = [0] * 4  # every head of the layer was pruned away
    some = read_description(message)
    stored(
        patterns=workbench.plot_description(DESCRIBED),
        dark_patterns=workbench.plot_description(some, dark=True),
        statistics=workbench.plot_description(some, "statistics", title="mine"),
        clusters=workbench.plot_description(DESCRIBED, "clusters", dark=True),
        refused=[
            lambda: workbench.plot_description(DESCRIBED, "other"),  # type: ignore[arg-type]
            lambda: workbench.plot_description(some, "clusters"),
        ],
    )


WEIGHTS = np.array([[0.5, 0.4, 0.005], [0.0, 0.25, 0.0], [0.1, 0.2, 0.3]], np.float32)


def of_weights(weights, quantity="weights"):
    maps = maps_of(["the", "cat", "$5"], layers=(2,), heads=(1,))
    return replace(maps, attention=np.array(weights, np.float32)[None, None], quantity=quantity)


def test_labels_stay_on_the_page_and_apart():
    length = MAX_LABELS
    names = [f"unexpectedly{number}" for number in range(length - 1)] + ["a" * 90]
    figure = workbench.plot_attention(maps_of(names), layer=0, head=1, title="t")
    renderer = FigureCanvasAgg(figure).get_renderer()
    page = figure.bbox
    heat, _, lines = figure.axes
    boxes = [text.get_window_extent(renderer) for text in [*lines.texts, *heat.get_xticklabels(), *heat.get_yticklabels()]]
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)
    left = boxes[:length]
    assert all(above.y0 >= below.y1 - 1 for above, below in pairwise(left))


def test_one_head(stored, tmp_path) -> None:
    """A heat map, and a line between tokens for each weight that can be seen, with its opacity and width."""
    maps = of_weights(WEIGHTS)
    pair = tuple(replace(token, segment=int(index == 2)) for index, token in enumerate(maps.tokens))
    words = tuple(Token(text, 1, 0, 0, False, index, 0, ()) for index, text in enumerate(("One", "two", "three")))
    figure = workbench.plot_attention(maps)
    heat, _, lines = figure.axes
    assert lines.get_position().y0 == pytest.approx(heat.get_position().y0)
    assert lines.get_position().height == pytest.approx(heat.get_position().height)
    infinite = of_weights(np.where(WEIGHTS == 0.5, np.inf, 0), "norms")
    workbench.save_attention(infinite, tmp_path / "map.png", dark=True)
    stored(
        weights=figure,
        norms=workbench.plot_attention(of_weights(WEIGHTS * 7.5, "norms")),
        of_two_texts=workbench.plot_attention(replace(maps, tokens=pair, text_pair="$5"), dark=True),
        words=workbench.plot_attention(replace(maps, tokens=words)),
        zeros=workbench.plot_attention(of_weights(np.zeros((3, 3)), "norms")),
        infinite=workbench.plot_attention(infinite),
        of_a_long_text=len(workbench.plot_attention(maps_of(["a"] * (MAX_LABELS + 1)), layer=0, head=1).axes),
    )


PROVENANCE = bertscope.Provenance("models/m", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {}, "zero_based")


def mask(*words: tuple[str, float]) -> bertscope.FilledMask:
    entries = [bertscope.Prediction(word, (word,), (ord(word[-1]),), share, -1.0, None, 1) for word, share in words]
    return bertscope.FilledMask(tuple(entries), 4, 10, 1)


RUN, BEFORE = mask(("$a", 0.5), ("b", 0.25), ("c", 0.1)), mask(("b", 0.75), ("$a", 0.125))
START = bertscope.InspectionStart(
    "The [MASK]", None, (), (), 0, True, (RUN,) * 4, (BEFORE,) * 4, True, (), 2, 3, 0.001, PROVENANCE
)  # fmt: skip
MOVED = np.array([[0, 0, 0], [0.1, 0.2, 0.4]], np.float32)
INSPECTED = bertscope.Inspection(START, bertscope.InspectionDistances(MOVED, None), ())


def test_inspections(stored) -> None:
    """Of the predictions, the third was not among the likeliest of the untouched run."""
    alone = replace(INSPECTED, distances=None, start=replace(START, masks=(RUN,), untouched_masks=()))
    still = replace(INSPECTED, start=replace(START, masks=(), untouched_masks=()))
    stored(
        whole=workbench.plot_inspection(INSPECTED),
        predictions=workbench.plot_inspection(alone),
        distances=workbench.plot_inspection(still, dark=True, title="what moved"),
        nothing=lambda: workbench.plot_inspection(replace(still, distances=None)),
    )


SCORES = read_relation_scores(relation_scores({"nsubj": 2, "a" * 60: 4, "$x$": 1}, 3, 4))


def test_relations_and_features(stored) -> None:
    message = relation_scores({"good": 2, "bad": 2}, 1, 2)
    for detail in message.details:
        detail.forward_correct[:] = [1 + detail.text_index % 2, 0] if detail.relation == 0 else [0, detail.text_index % 2]
        detail.backward_correct[:] = [0, 0]
    for relation, score in enumerate(message.relations):
        score.forward.correct[:] = [60, 0] if relation == 0 else [0, 20]
        score.backward.correct[:] = [0, 0]
    beaten = read_relation_scores(message)
    del message.details[:]
    many = read_relation_scores(
        relation_scores({f"r{index}": 1 + index % 3 for index in range(MAX_RELATIONS + 5)}, 2, 2, texts=6)
    )
    of_many = workbench.plot_relations(many, "forward", dark=True)
    features = read_feature_scores(feature_scores(["noun", "[CLS]"], 3, 4))
    stored(
        most_pairs_first=workbench.plot_relations(SCORES),
        a_head_that_does_not_beat_the_offset=workbench.plot_relations(beaten, dark=True),
        not_compared_with_the_offset=workbench.plot_relations(read_relation_scores(message)),
        many=[of_many.get_suptitle(), len(of_many.axes[0].get_yticks())],
        features=workbench.plot_features(features),
        dark_features=workbench.plot_features(features, dark=True),
        printed=printed(print_relations, beaten, None, 5),
        nothing=[
            lambda: workbench.plot_relations(read_relation_scores(relation_scores({}, 2, 2))),
            lambda: workbench.plot_features(read_feature_scores(feature_scores(["noun"], 2, 2, texts=0))),
        ],
    )


OF_TREES = Provenance("models/$m$", "", "torch", "cpu", "fp32", {}, "zero_based")


def scores(directed, undirected, heads, words=100, previous=20, following=30):
    directed, undirected = np.array(directed), np.array(undirected)
    layers = tuple(range(2, 2 + len(directed)))
    return TreeScores(layers, heads, 9, 1, words, directed, undirected, previous, following, OF_TREES)


TREES_OF_LAYERS = scores([[10], [40], [35]], [[30], [60], [45]], ())
TREES_OF_HEADS = scores([[10, 31, 30], [40, 5, 0]], [[51, 50, 40], [60, 5, 0]], (0, 1, 2))


def test_trees(stored) -> None:
    stored(
        layers=workbench.plot_trees(TREES_OF_LAYERS),
        dark_layers=workbench.plot_trees(TREES_OF_LAYERS, dark=True, title="mine"),
        heads=workbench.plot_trees(TREES_OF_HEADS),
        dark_heads=workbench.plot_trees(TREES_OF_HEADS, dark=True),
        nothing=lambda: workbench.plot_trees(scores([[0]], [[0]], (), 0, 0, 0)),
    )


CODED = (workbench.LayerCode(0, 500.0, 4.0, 1500.0, 4 / 3), workbench.LayerCode(6, 250.0, 8.0, 1600.0, 1.25))


@pytest.mark.parametrize("there", [True, False])
def test_characters_that_the_font_lacks_are_of_another_font_or_reported(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(themed_figure, "fallbacks", lambda: ("STIXNonUnicode",) if there else ())  # matplotlib's own
    figure = figures.new_figure(2.5, 2)
    figure.suptitle("\ue0d8")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        figures.write(figure, tmp_path / "a.svg")
    assert [str(warning.message) for warning in heard] == ([] if there else [figures.BOXES])


def test_a_figure_shows_itself_in_a_notebook() -> None:
    figure = figures.new_figure(2.5, 2)
    figure.suptitle("喵")  # a character that the font lacks, without a warning
    content, size = figure._repr_png_()  # type: ignore[attr-defined]  # of the subclass
    assert content.startswith(b"\x89PNG")
    assert size == {"width": 240, "height": 192}


def test_code_lengths(stored) -> None:
    def lengths(uniform: float) -> workbench.CodeLengths:
        return workbench.CodeLengths(CODED, uniform, 1000, ("a", "b", "c", "d"), (1, 9), 0, PROVENANCE)

    figures_of_curves = {}
    for theme in (themes.LIGHT, themes.DARK):
        axes = figures.new_figure(4, 3, theme=theme).subplots()
        for number in range(len(MARKS)):
            curve_of_layers(axes, [0, 1], [number, number], str(number), theme, number=number)
        assert len({line.get_color() for line in axes.lines}) == len({line.get_marker() for line in axes.lines}) == len(MARKS)
        figures_of_curves["curves" if theme is themes.LIGHT else "dark_curves"] = axes.figure
    stored(
        kilobits=workbench.plot_code_length(lengths(2000.0)),
        bits=workbench.plot_code_length(lengths(999.0), dark=True, title="labels"),
        **figures_of_curves,
    )


@pytest.mark.parametrize("dark", [False, True])
def test_cells_look_different_from_heads_that_were_not_measured(dark):
    """Faint cells at the ends of the scale were as grey as these."""
    image = workbench.plot_sweep(HEADS, dark=dark).axes[0].images[0]
    page = np.array(to_rgb((DARK if dark else LIGHT).page))
    missing = np.array(image.cmap.get_bad()[:3])
    for value in np.linspace(-0.4, 0.4, 41):
        color = image.cmap(image.norm(value))[:3]
        for opacity in (1, FAINT_SHARE):
            assert np.abs(opacity * np.array(color) + (1 - opacity) * page - missing).max() > 0.1


LAYERS = table_of({(0, 0, 1): 0.4, (1, 0, 1): -0.4, (2, 0, 1): 0.05}, scope="layers")
SETS = table_of({(0, *range(12)): 0.1, (1, 2): -0.4}, scope="sets")


def test_heat_maps_of_heads(stored) -> None:
    without = HeadEffect({0: (0,)}, {"accuracy": metric_effect("accuracy", 0.4, None)})
    unsure = SweepTable("zero", "heads", SweepStart({"accuracy": 0.5}, 1, 4, 0, 0, 0), (without,), (), SUMMARY)
    images = [workbench.plot_sweep(HEADS, metric).axes[0].images[0] for metric in ("accuracy", "loss")]
    stored(
        heads=workbench.plot_sweep(HEADS),
        better_and_worse=[[to_hex(image.to_rgba(value)) for value in (0.4, -0.4)] for image in images],
        dark=workbench.plot_sweep(replace(HEADS, interrupted="gone"), dark=True),
        divergence=workbench.plot_sweep(table_of({(0, 0): 0.4, (0, 1): 0.2}, "divergence")),
        without_an_interval=workbench.plot_sweep(unsure),
        zeros=workbench.plot_sweep(table_of({(0, 0): 0.0})),
        ranking=workbench.plot_ranking(ranking()),
        dark_ranking=workbench.plot_ranking(ranking(), dark=True, title="$"),
        not_measured=lambda: workbench.plot_sweep(HEADS, "divergence"),
    )


def test_bars_of_layers_and_sets_and_curves(stored) -> None:
    """An accuracy is no less than 0 and no more than 1, whatever an interval's formula says."""
    effects = tuple(HeadEffect({layer: (0, 1)}, {"accuracy": metric_effect("accuracy", 0.1, None)}) for layer in (0, 1))
    unsure = SweepTable("zero", "layers", SweepStart({"accuracy": 0.5}, 2, 1, 0, 0, 0), effects, (), SUMMARY)
    stored(
        layers=workbench.plot_sweep(LAYERS),
        dark_layers=workbench.plot_sweep(LAYERS, dark=True),
        at_the_ends=workbench.plot_sweep(table_of({(0, 0, 1): 0.45, (1, 0, 1): -0.45}, scope="layers")),
        divergences=workbench.plot_sweep(table_of({(0, 0, 1): 0.05, (1, 0, 1): 0.2}, "divergence", "layers")),
        without_an_interval=workbench.plot_sweep(unsure),
        sets=workbench.plot_sweep(SETS),
        curve=workbench.plot_sweep(curve(0, 0.25, 1)),
        dark_curve=workbench.plot_sweep(curve(0, 0.25, 1, margin=None), dark=True),
        curve_at_the_ends=workbench.plot_sweep(curve(-0.4, 0.0, 0.4, margin=0.3)),
    )
