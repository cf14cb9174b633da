"""Figures of descriptions show every layer, head and class, on light and dark pages."""

import bertscope
import pytest
from bertscope.questions.attention.description import read_description

from tests.support.descriptions import Numbers, description

WHOLE = read_description(description(Numbers(4, 3, 4), distances=True))


def test_pictures(stored) -> None:
    message = description(Numbers(4, 3, 4), layers=[7, 2, 9])
    for pattern in message.patterns:
        pattern.texts[:4] = [0] * 4  # every head of the layer was pruned away
    some = read_description(message)
    stored(
        patterns=bertscope.plot_description(WHOLE),
        dark_patterns=bertscope.plot_description(some, dark=True),
        statistics=bertscope.plot_description(some, "statistics", title="mine"),
        clusters=bertscope.plot_description(WHOLE, "clusters", dark=True),
        refused=[
            lambda: bertscope.plot_description(WHOLE, "other"),  # type: ignore[arg-type]
            lambda: bertscope.plot_description(some, "clusters"),
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize("picture", ["patterns", "statistics", "clusters"])
def test_large_figures_are_written(tmp_path, picture):
    found = read_description(description(Numbers(2, 24, 16), pairs=False, distances=True))
    bertscope.save_description(found, tmp_path / "figure.svg", picture, dark=True)
    assert (tmp_path / "figure.svg").stat().st_size > 5000
