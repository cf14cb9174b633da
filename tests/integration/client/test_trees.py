"""`score_trees` on a real server: the trees of the maps that it streams."""

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope import InvalidArgument, RelationText, TextsProgress
from bertscope_workbench.analyses.trees import score_tree

from tests.support.harness import Host

TEXTS = [
    RelationText("The cat sleeps.", [("det", 1, 0), ("nsubj", 2, 1)]),
    RelationText("Nobody waited for the unplayable song.", [("x", 1, 0), ("x", 5, 2), ("x", 5, 3), ("x", 5, 4), ("x", 1, 5)]),
    RelationText("No tree at all.", [("x", 1, 0), ("x", 0, 1)]),
]


LONG = RelationText(" ".join(["long"] * 600), [("x", 0, 1)])


def test_texts_that_the_server_rejects_are_left_out(host: Host) -> None:
    rejected: list[tuple[int, str]] = []
    done: list[TextsProgress] = []

    def note(index: int, error: InvalidArgument) -> None:
        rejected.append((index, error.field_violations[0].field))

    with bertscope.Client(host.target) as client:
        expected = workbench.score_trees(client, TEXTS)
        some = [LONG, TEXTS[0], LONG, *TEXTS[1:], LONG]
        found = workbench.score_trees(client, some, on_rejected=note, on_progress=done.append)
        with pytest.raises(InvalidArgument, match=r"texts|inputs"):
            workbench.score_trees(client, some)
        with pytest.raises(InvalidArgument, match="every text was rejected"):
            workbench.score_trees(client, [LONG, LONG], on_rejected=lambda *_: None)
    np.testing.assert_array_equal(found.directed, expected.directed)
    assert (found.texts, found.skipped_texts) == (expected.texts, expected.skipped_texts)
    assert [index for index, _ in rejected] == [0, 2, 5]
    assert [field for _, field in rejected] == [f"inputs[{index}]" for index, _ in rejected]
    assert [(each.done, each.total) for each in done] == [(1, 6), (2, 6), (3, 6)]


def test_trees_are_those_of_the_maps_that_are_streamed(host: Host) -> None:
    done: list[TextsProgress] = []
    with bertscope.Client(host.target) as client:
        found = workbench.score_trees(client, TEXTS, layers=[2, 0], by_head=True, on_progress=done.append)
        maps = [*client.extract_attention([text.text for text in TEXTS], layers=[2, 0])]
        layers = workbench.score_trees(client, TEXTS, layers=[2, 0])
        with pytest.raises(InvalidArgument, match="have no pairs"):
            workbench.score_trees(client, [RelationText("The cat sleeps.", [])])
    parts = [score_tree(text, own, by_head=True) for text, own in zip(TEXTS, maps, strict=True)]
    assert (found.layers, found.heads, found.texts, found.skipped_texts, found.words) == ((2, 0), (0, 1, 2, 3), 2, 1, 7)
    np.testing.assert_array_equal(found.directed, sum(part.directed for part in parts))
    np.testing.assert_array_equal(found.undirected, sum(part.undirected for part in parts))
    assert (found.directed <= found.undirected).all()
    assert [each.done for each in done] == [1, 2, 3]
    assert (layers.heads, layers.directed.shape) == ((), (2, 1))
