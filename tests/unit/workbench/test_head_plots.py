"""The figure of one head has its heat map and a line between tokens for each weight that can be seen."""

from dataclasses import replace
from itertools import pairwise

import bertscope
import numpy as np
import pytest
from bertscope import Token
from bertscope_workbench.plots.attention_head import MAX_LABELS
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tests.support.drawn import maps_of

WEIGHTS = np.array([[0.5, 0.4, 0.005], [0.0, 0.25, 0.0], [0.1, 0.2, 0.3]], np.float32)


def of_weights(weights, quantity="weights"):
    maps = maps_of(["the", "cat", "$5"], layers=(2,), heads=(1,))
    return replace(maps, attention=np.array(weights, np.float32)[None, None], quantity=quantity)


@pytest.mark.parametrize("length", [2, MAX_LABELS])
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


def test_one_head(stored, tmp_path) -> None:
    """A heat map, and a line between tokens for each weight that can be seen, with its opacity and width."""
    maps = of_weights(WEIGHTS)
    pair = tuple(replace(token, segment=int(index == 2)) for index, token in enumerate(maps.tokens))
    words = tuple(Token(text, 1, 0, 0, False, index, 0, ()) for index, text in enumerate(("One", "two", "three")))
    figure = bertscope.plot_attention(maps)
    heat, _, lines = figure.axes
    assert lines.get_position().y0 == pytest.approx(heat.get_position().y0)
    assert lines.get_position().height == pytest.approx(heat.get_position().height)
    infinite = of_weights(np.where(WEIGHTS == 0.5, np.inf, 0), "norms")
    bertscope.save_attention(infinite, tmp_path / "map.png", dark=True)
    stored(
        weights=figure,
        norms=bertscope.plot_attention(of_weights(WEIGHTS * 7.5, "norms")),
        of_two_texts=bertscope.plot_attention(replace(maps, tokens=pair, text_pair="$5"), dark=True),
        words=bertscope.plot_attention(replace(maps, tokens=words)),
        zeros=bertscope.plot_attention(of_weights(np.zeros((3, 3)), "norms")),
        infinite=bertscope.plot_attention(infinite),
        of_a_long_text=len(bertscope.plot_attention(maps_of(["a"] * (MAX_LABELS + 1)), layer=0, head=1).axes),
    )
