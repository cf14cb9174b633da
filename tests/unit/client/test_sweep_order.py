"""Heads and layers in the order of what is lost without them, by any metric of a sweep."""

from dataclasses import replace

from tests.support.swept_tables import curve, table_of

HEADS = table_of({(0, 0): -0.3, (0, 1): 0.1, (1, 0): -0.1, (1, 1): 0.1, (2, 0): -0.2})
LAYERS = table_of({(0, 0, 1): -0.1, (1, 0, 1): 0.0, (2, 0): -0.2}, scope="layers")


def test_the_least_important_come_first_and_equal_ones_as_they_came(stored) -> None:
    """table_of has the loss better where the accuracy is better; a divergence ranks by how little changes."""
    moved = table_of({(0, 0): 0.3, (0, 1): 0.1}, "divergence")
    orders = HEADS.order(), HEADS.order("loss"), LAYERS.order(), moved.order("divergence")
    stored(
        orders=[[effect.name for effect in order] for order in orders],
        what_prune_heads_takes=[
            HEADS.least(count=3),
            HEADS.least(share=0.5),
            HEADS.least(share=0.1),
            LAYERS.least(count=2, metric="loss"),
        ],
        refused=[
            lambda: curve(0.1, 0.2).order(),
            lambda: replace(HEADS, interrupted="a deadline").order(),
            lambda: HEADS.order("spearman"),
            lambda: HEADS.least(),
            lambda: LAYERS.least(count=4),
        ],
    )
