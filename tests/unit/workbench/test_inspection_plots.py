"""Drawn inspections: predictions beside those of the untouched run, and a grid of what moved."""

from dataclasses import replace

import bertscope
import numpy as np

PROVENANCE = bertscope.Provenance("models/m", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {}, "zero_based")


def mask(*words: tuple[str, float]) -> bertscope.FilledMask:
    entries = [bertscope.Prediction(word, (word,), (ord(word[-1]),), share, -1.0, None, 1) for word, share in words]
    return bertscope.FilledMask(tuple(entries), 4, 10, 1)


RUN, BEFORE = mask(("$a", 0.5), ("b", 0.25), ("c", 0.1)), mask(("b", 0.75), ("$a", 0.125))
START = bertscope.InspectionStart(
    "The [MASK]", None, (), (), 0, True, (RUN,) * 4, (BEFORE,) * 4, True, (), 2, 3, 0.001, PROVENANCE
)  # fmt: skip
MOVED = np.array([[0, 0, 0], [0.1, 0.2, 0.4]], np.float32)
WHOLE = bertscope.Inspection(START, bertscope.InspectionDistances(MOVED, None), ())


def test_inspections(stored) -> None:
    """Of the predictions, the third was not among the likeliest of the untouched run."""
    alone = replace(WHOLE, distances=None, start=replace(START, masks=(RUN,), untouched_masks=()))
    still = replace(WHOLE, start=replace(START, masks=(), untouched_masks=()))
    stored(
        whole=bertscope.plot_inspection(WHOLE),
        predictions=bertscope.plot_inspection(alone),
        distances=bertscope.plot_inspection(still, dark=True, title="what moved"),
        nothing=lambda: bertscope.plot_inspection(replace(still, distances=None)),
    )
