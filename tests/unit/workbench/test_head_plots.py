"""The figure of one head has its heat map and a line between tokens for each weight that can be seen."""

from dataclasses import replace
from itertools import pairwise

import bertscope
import numpy as np
import pytest
from bertscope import Token
from bertscope_workbench.plots.attention_head import FINEST, LEAST_SHARE, MAX_LABELS, THICKEST
from bertscope_workbench.plots.theme import DARK, LIGHT
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from tests.support.drawn import maps_of

WEIGHTS = np.array([[0.5, 0.4, 0.005], [0.0, 0.25, 0.0], [0.1, 0.2, 0.3]], np.float32)


def of_weights(weights, quantity="weights"):
    maps = maps_of(["the", "cat", "$5"], layers=(2,), heads=(1,))
    return replace(maps, attention=np.array(weights, np.float32)[None, None], quantity=quantity)


def lines_of(figure):
    """The lines from token to token, with their opacity and width."""
    axes = figure.axes[2]
    (drawn,) = axes.collections
    return {
        (round(float(start[1])), round(float(stop[1]))): (color, width)
        for (start, stop), color, width in zip(drawn.get_segments(), drawn.get_colors(), drawn.get_linewidths(), strict=True)
    }


@pytest.mark.parametrize("scale", [1, 7.5], ids=["weights", "norms"])
def test_lines_have_the_opacity_and_width_of_weights(scale):
    maps = of_weights(WEIGHTS * scale, "weights" if scale == 1 else "norms")
    found = lines_of(bertscope.plot_attention(maps))
    shares = WEIGHTS / WEIGHTS.max()
    assert set(found) == {(row, column) for row, column in np.argwhere(shares >= LEAST_SHARE).tolist()}
    for place, (color, width) in found.items():
        assert color[3] == pytest.approx(shares[place])
        assert width == pytest.approx(FINEST + (THICKEST - FINEST) * shares[place])


def test_tokens_stand_beside_the_lines_level_with_the_rows():
    figure = bertscope.plot_attention(of_weights(WEIGHTS))
    heat, _, lines = figure.axes
    assert [text.get_text() for text in lines.texts] == ["the", "cat", r"\$5"] * 2 + ["from", "attended to"]
    assert lines.get_position().y0 == pytest.approx(heat.get_position().y0)
    assert lines.get_position().height == pytest.approx(heat.get_position().height)
    assert lines.get_ylim() == heat.get_ylim()
    assert (heat.get_ylabel(), heat.get_xlabel()) == ("from", "attended to")


@pytest.mark.parametrize("length", [2, 17, 40, MAX_LABELS])
def test_labels_stay_on_the_page_and_apart(length):
    names = [f"unexpectedly{number}" for number in range(length - 1)] + ["a" * 90]
    figure = bertscope.plot_attention(maps_of(names), layer=0, head=1, title="t")
    renderer = FigureCanvasAgg(figure).get_renderer()
    page = figure.bbox
    heat, _, lines = figure.axes
    boxes = [text.get_window_extent(renderer) for text in [*lines.texts, *heat.get_xticklabels(), *heat.get_yticklabels()]]
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)
    left = boxes[:length]
    assert all(above.y0 >= below.y1 - 1 for above, below in pairwise(left))


def test_lines_from_the_second_text_have_a_colour_of_their_own():
    maps = of_weights(WEIGHTS)
    tokens = tuple(replace(token, segment=int(index == 2)) for index, token in enumerate(maps.tokens))
    figure = bertscope.plot_attention(replace(maps, tokens=tokens, text_pair="$5"), dark=True)
    colors = {place: to_hex(color[:3]) for place, (color, _) in lines_of(figure).items()}
    assert {color for (row, _), color in colors.items() if row == 2} == {DARK.lines[1]}
    assert {color for (row, _), color in colors.items() if row < 2} == {DARK.lines[0]}
    assert figure.axes[0].lines[0].get_ydata()[0] == 1.5  # Between the texts.


def test_light_and_dark_pages():
    for dark, theme in ((False, LIGHT), (True, DARK)):
        for maps in (of_weights(WEIGHTS), maps_of(["the", "cat"])):
            figure = bertscope.plot_attention(maps, dark=dark)
            assert to_hex(figure.get_facecolor()) == to_hex(theme.page)
            assert figure.axes[0].get_yticklabels()[0].get_color() == theme.ink
            assert figure._suptitle.get_color() == theme.ink


def test_a_long_text_has_no_lines():
    figure = bertscope.plot_attention(maps_of([str(number) for number in range(MAX_LABELS + 1)]), layer=0, head=1)
    assert len(figure.axes) == 2


@pytest.mark.parametrize("value", [0.0, np.inf])
def test_maps_of_zeros_and_of_numbers_beyond_float16(tmp_path, value):
    maps = of_weights(np.where(WEIGHTS == 0.5, value, 0), "norms")
    figure = bertscope.plot_attention(maps)
    assert len(lines_of(figure)) == (value > 0)
    bertscope.save_attention(maps, tmp_path / "map.png", dark=True)


def test_pages_are_light(tmp_path):
    with pytest.raises(ValueError, match=r"must end with \.png, \.svg or \.pdf"):
        bertscope.save_attention(of_weights(WEIGHTS), tmp_path / "map.html", dark=True)


def test_words_are_tokens_too():
    maps = of_weights(WEIGHTS)
    tokens = tuple(Token(text, 1, 0, 0, False, index, 0, ()) for index, text in enumerate(("One", "two", "three")))
    figure = bertscope.plot_attention(replace(maps, tokens=tokens))
    assert [text.get_text() for text in figure.axes[2].texts[:3]] == ["One", "two", "three"]
