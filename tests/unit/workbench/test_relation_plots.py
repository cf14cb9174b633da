"""Figures of relations show the best heads beside their baselines, and those of features a map for each."""

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.relation_replies import read_feature_scores, read_relation_scores
from bertscope_workbench.plots.relations import BEATEN, BEATS, MAX_RELATIONS, UNTESTED

from tests.support.descriptions import feature_scores, relation_scores

SCORES = read_relation_scores(relation_scores({"nsubj": 2, "a" * 60: 4, "$x$": 1}, 3, 4))


def test_a_row_for_each_relation_most_pairs_first():
    figure = bertscope.plot_relations(SCORES)
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [f"{'a' * 25}... (80)", "nsubj (40)", r"\$x\$ (20)"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    expected = [100 * SCORES[name].best().accuracy for name in ("a" * 60, "nsubj", "$x$")]
    np.testing.assert_allclose([dot.get_xdata()[0] for dot in dots], expected)
    names = [text.get_text() for text in axes.texts if ":" in text.get_text()]
    best = SCORES["nsubj"].best()
    assert names[1] == f"{best.layer}:{best.head} {'→' if best.direction == 'forward' else '←'}"
    assert axes.yaxis_inverted()


def test_a_head_that_does_not_beat_the_offset_is_grey():
    message = relation_scores({"good": 2, "bad": 2}, 1, 2)
    for detail in message.details:
        detail.forward_correct[:] = [1 + detail.text_index % 2, 0] if detail.relation == 0 else [0, detail.text_index % 2]
        detail.backward_correct[:] = [0, 0]
    for relation, score in enumerate(message.relations):
        score.forward.correct[:] = [60, 0] if relation == 0 else [0, 20]
        score.backward.correct[:] = [0, 0]
    for figure in (bertscope.plot_relations(read_relation_scores(message)),):
        colors = {line.get_color() for line in figure.axes[0].lines if line.get_marker() == "o"}
        assert colors == {BEATS, BEATEN}
    del message.details[:]
    figure = bertscope.plot_relations(read_relation_scores(message))
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert {dot.get_color() for dot in dots} == {UNTESTED}
    assert {dot.get_markerfacecolor() for dot in dots} == {"white"}
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said[0] == "best head, not compared with the offset: too few texts"
    assert "best head" not in said


def test_of_very_many_relations_the_commonest_are_shown():
    many = {f"r{index}": 1 + index % 3 for index in range(MAX_RELATIONS + 5)}
    figure = bertscope.plot_relations(read_relation_scores(relation_scores(many, 2, 2, texts=6)), "forward", dark=True)
    assert len(figure.axes[0].get_yticks()) == MAX_RELATIONS
    assert "5 rarer ones are not shown" in figure.get_suptitle()


def test_every_feature_is_a_heat_map():
    scores = read_feature_scores(feature_scores(["noun", "[CLS]"], 3, 4))
    figure = bertscope.plot_features(scores)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert [axes.get_title() for axes in panels] == ["noun", "[CLS]"]
    np.testing.assert_allclose(panels[0].images[0].get_array(), scores.attention("noun"))


def test_scores_of_nothing_are_refused(tmp_path):
    for save, scores in (
        (bertscope.save_relations, read_relation_scores(relation_scores({}, 2, 2))),
        (bertscope.save_features, read_feature_scores(feature_scores(["noun"], 2, 2, texts=0))),
    ):
        with pytest.raises(bertscope.InvalidArgument, match="nothing to draw"):
            save(scores, tmp_path / "figure.png")
        with pytest.raises(ValueError, match=r"\.png"):
            save(scores, tmp_path / "figure.gif")


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (12, 12), (24, 16)])
def test_figures_are_written_at_every_size(tmp_path, layers, heads):
    scores = read_relation_scores(relation_scores({"nsubj": 2}, layers, heads))
    bertscope.save_relations(scores, tmp_path / "relations.svg")
    bertscope.save_features(read_feature_scores(feature_scores(["noun"], layers, heads)), tmp_path / "features.svg", dark=True)
    assert min((tmp_path / name).stat().st_size for name in ("relations.svg", "features.svg")) > 5000
