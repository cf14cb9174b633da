"""Heads and layers in the order of what is lost without them, by any metric of a sweep."""

from dataclasses import replace

import pytest
from bertscope import InvalidArgument, SweepTable

from tests.support.swept_tables import curve, table_of

HEADS = table_of({(0, 0): -0.3, (0, 1): 0.1, (1, 0): -0.1, (1, 1): 0.1, (2, 0): -0.2})
LAYERS = table_of({(0, 0, 1): -0.1, (1, 0, 1): 0.0, (2, 0): -0.2}, scope="layers")


def names(table: SweepTable, metric: str | None = None) -> list[str]:
    return [effect.name for effect in table.order(metric)]


def test_the_least_important_come_first_and_equal_ones_as_they_came() -> None:
    assert names(HEADS) == ["0:1", "1:1", "1:0", "2:0", "0:0"]
    # table_of has the loss better where the accuracy is better.
    assert names(HEADS, "loss") == names(HEADS)
    assert [effect.layer for effect in LAYERS.order()] == [1, 0, 2]


def test_a_divergence_ranks_by_how_little_changes() -> None:
    moved = table_of({(0, 0): 0.3, (0, 1): 0.1}, "divergence")
    assert names(moved, "divergence") == ["0:1", "0:0"]


@pytest.mark.parametrize(
    ("table", "arguments", "expected"),
    [
        (HEADS, {"count": 3}, {0: (1,), 1: (0, 1)}),
        (HEADS, {"share": 0.5}, {0: (1,), 1: (1,)}),
        (HEADS, {"share": 0.1}, {}),
        (LAYERS, {"count": 2, "metric": "loss"}, {0: (0, 1), 1: (0, 1)}),
    ],
)
def test_the_least_important_are_what_prune_heads_takes(
    table: SweepTable, arguments: dict[str, object], expected: object
) -> None:
    assert table.least(**arguments) == expected


def test_what_has_no_order_is_refused() -> None:
    for table in (curve(0.1, 0.2), replace(HEADS, interrupted="a deadline")):
        with pytest.raises(ValueError, match="only a whole sweep"):
            table.order()
    with pytest.raises(KeyError, match="spearman is not among the metrics"):
        HEADS.order("spearman")
    with pytest.raises(InvalidArgument, match="share: give share or count"):
        HEADS.least()
    with pytest.raises(InvalidArgument, match="must be 0 to 3, the number of layers, not 4"):
        LAYERS.least(count=4)
