"""`score_trees` on a real server: the trees of the maps that it streams, for threads and for tasks."""

from __future__ import annotations

import asyncio

import bertscope
import numpy as np
import pytest
from bertscope import InvalidArgument, RelationText, TextsProgress
from bertscope.attention.trees import score_tree

from tests.support.harness import Host

TEXTS = [
    RelationText("The cat sleeps.", [("det", 1, 0), ("nsubj", 2, 1)]),
    RelationText("Nobody waited for the unplayable song.", [("x", 1, 0), ("x", 5, 2), ("x", 5, 3), ("x", 5, 4), ("x", 1, 5)]),
    RelationText("No tree at all.", [("x", 1, 0), ("x", 0, 1)]),
]


def test_trees_are_those_of_the_maps_that_are_streamed(host: Host) -> None:
    done: list[TextsProgress] = []
    with bertscope.Client(host.target) as client:
        found = client.score_trees(TEXTS, layers=[2, 0], by_head=True, on_progress=done.append)
        maps = [*client.extract_attention([text.text for text in TEXTS], layers=[2, 0])]
        layers = client.score_trees(TEXTS, layers=[2, 0])
        with pytest.raises(InvalidArgument, match="have no pairs"):
            client.score_trees([RelationText("The cat sleeps.", [])])
    parts = [score_tree(text, own, by_head=True) for text, own in zip(TEXTS, maps, strict=True)]
    assert (found.layers, found.heads, found.texts, found.skipped_texts, found.words) == ((2, 0), (0, 1, 2, 3), 2, 1, 7)
    np.testing.assert_array_equal(found.directed, sum(part.directed for part in parts))
    np.testing.assert_array_equal(found.undirected, sum(part.undirected for part in parts))
    assert (found.directed <= found.undirected).all()
    assert [each.done for each in done] == [1, 2, 3]
    assert (layers.heads, layers.directed.shape) == ((), (2, 1))

    async def asked() -> bertscope.TreeScores:
        async with bertscope.AsyncClient(host.target) as client:
            return await client.score_trees(TEXTS, layers=[2, 0], by_head=True)

    np.testing.assert_array_equal(asyncio.run(asked()).directed, found.directed)
