"""A sweep shows, unless told otherwise, the first metric that can still rise."""

import pytest
from bertscope import SweepStart


def start(**baseline: float) -> SweepStart:
    return SweepStart(baseline=baseline, total=3, items=9, skipped_items=0, truncated_texts=0, predicted_pieces=0)


@pytest.mark.parametrize(
    ("baseline", "shown"),
    [
        ({"accuracy": 0.9, "score_difference": 2.0}, "accuracy"),
        ({"accuracy": 1.0, "score_difference": 2.0}, "score_difference"),
        ({"accuracy": 1.0, "reciprocal_rank": 1.0, "loss": 0.1}, "loss"),
        ({"accuracy": 1.0}, "accuracy"),
        ({"divergence": 0.0}, "divergence"),
    ],
)
def test_the_metric_that_is_shown(baseline, shown) -> None:
    found = start(**baseline)
    assert found.metric() == shown
    assert found.metric("accuracy" if "accuracy" in baseline else "divergence") in baseline
    with pytest.raises(KeyError, match="squared_error is not among"):
        found.metric("squared_error")
