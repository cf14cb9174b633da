"""Figures of descriptions show every layer, head and class, on light and dark pages."""

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.description import PATTERNS, STATISTICS, read_description
from bertscope_workbench.plots.theme import DARK, LIGHT

from tests.support.descriptions import Numbers, description

WHOLE = read_description(description(Numbers(4, 3, 4), distances=True))


def shown_axes(figure):
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]


def test_patterns_are_stacked_to_100_percent_in_each_layer():
    figure = bertscope.plot_description(WHOLE)
    (axes,) = figure.axes
    heights = np.array([bar.get_height() for bar in axes.patches]).reshape(len(PATTERNS), 3)
    np.testing.assert_allclose(heights.sum(0), 100)
    expected = [100 * WHOLE.pattern_share(name).mean(1) for name in PATTERNS]
    np.testing.assert_allclose(heights, expected)
    assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == "vertical"
    assert "models/fake, 4 texts" in figure.get_suptitle()


def test_layers_without_a_class_are_empty():
    """Every head of the layer was pruned away."""
    message = description(Numbers(4, 3, 4))
    for pattern in message.patterns:
        pattern.texts[:4] = [0] * 4
    (axes,) = bertscope.plot_description(read_description(message)).axes
    assert [bar.get_height() for bar in axes.patches][::3] == [0] * len(PATTERNS)


@pytest.mark.slow
def test_every_statistic_is_a_heat_map():
    figure = bertscope.plot_description(WHOLE, "statistics", title="mine")
    panels = shown_axes(figure)
    assert len(panels) == len(STATISTICS)
    for axes, name in zip(panels, STATISTICS, strict=True):
        assert axes.get_title().startswith(name.replace("_", " "))
        np.testing.assert_allclose(axes.images[0].get_array(), WHOLE.mean(name))
        assert not axes.yaxis_inverted()  # The first layer is at the bottom.
    assert any(axes.get_title() == "entropy (nats)" for axes in panels)
    assert figure.get_suptitle() == "mine"


def test_layers_have_their_numbers():
    some = read_description(description(Numbers(4, 3, 4), layers=[7, 2, 9]))
    axes = shown_axes(bertscope.plot_description(some, "statistics"))[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["7", "2", "9"]


def test_heads_stand_at_their_coordinates():
    figure = bertscope.plot_description(WHOLE, "clusters")
    left, right = shown_axes(figure)
    assert WHOLE.head_distances is not None
    places = WHOLE.head_distances.coordinates()
    np.testing.assert_allclose(right.collections[0].get_offsets(), places)
    assert sum(len(group.get_offsets()) for group in left.collections) == 12


@pytest.mark.slow
@pytest.mark.parametrize("picture", ["patterns", "statistics", "clusters"])
def test_a_dark_figure_is_dark_with_light_text(picture):
    for theme, dark in ((LIGHT, False), (DARK, True)):
        figure = bertscope.plot_description(WHOLE, picture, dark=dark)
        assert figure._suptitle.get_color() == theme.ink
        brightness = sum(figure.get_facecolor()[:3]) / 3
        assert (brightness < 0.2) == dark


def test_pictures_that_there_are_not_are_refused(tmp_path):
    with pytest.raises(ValueError, match="picture must be one of"):
        bertscope.plot_description(WHOLE, "other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="head_distances=True"):
        bertscope.plot_description(read_description(description(Numbers(4, 3, 4))), "clusters")
    with pytest.raises(ValueError, match=r"\.png"):
        bertscope.save_description(WHOLE, tmp_path / "figure.bmp")


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (24, 16)])
@pytest.mark.parametrize("picture", ["patterns", "statistics", "clusters"])
def test_figures_are_written_at_every_size(tmp_path, picture, layers, heads):
    found = read_description(description(Numbers(2, layers, heads), pairs=False, distances=True))
    bertscope.save_description(found, tmp_path / "figure.svg", picture, dark=True)
    assert (tmp_path / "figure.svg").stat().st_size > 5000
