"""Probes that train together are never more than a device takes at a time."""

import numpy as np
from bertscope_service.probing.blocks import blocks, placed


def test_blocks_hold_every_probe_once_and_no_more_values_than_they_may() -> None:
    """As many layers at a time as fit, and groups of one layer where not all of them do; at least one probe."""
    names, largest = np.arange(12).reshape(4, 3), []
    for most in (1, 25, 60, 119, 120):
        parts = list(blocks(4, 3, 10, most))
        found = [names[part.layers, part.groups] for part in parts]
        assert np.array_equal(placed(parts, found), names)
        assert sum(one.size for one in found) == 12
        largest.append(found[0].shape)
    assert largest == [(1, 1), (1, 2), (2, 3), (3, 3), (4, 3)]
