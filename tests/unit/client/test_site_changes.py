"""Changes at sites are messages as written, and what can't be sent is refused with what to do."""

import types

import bertscope
import numpy as np
import pytest
from bertscope.v1 import common_pb2
from bertscope.v1.cloze_pb2 import FillMaskRequest
from bertscope.values.requests import request_of

from tests.support.stored_outputs import outcome

VECTOR = np.arange(3.0)


def request(interventions):
    return request_of(
        FillMaskRequest,
        model=None,
        top_k=None,
        candidates=None,
        interventions=interventions,
        reference_texts=(),
        truncate=False,
    )


def sent(change):
    (message,) = request(change).site_interventions
    return message


def array(tensor):
    assert tensor.dtype == common_pb2.DATA_TYPE_FLOAT32
    return np.frombuffer(tensor.data, "<f4").reshape(tuple(tensor.shape)).tolist()


def test_vectors_are_copies_that_nobody_changes():
    given = np.ones(2)
    change = bertscope.set_site(1, given)
    given[:] = 5
    assert array(sent(change).change.set) == [1, 1]
    with pytest.raises(ValueError, match="read-only"):
        change.change.vector[0] = 2


SITES = ("state", "heads", "attention", "neurons", "feed_forward")


def test_changes_become_messages(stored) -> None:
    changes = [
        bertscope.add(3, VECTOR),
        bertscope.zero(1, 2),
        bertscope.mean_site(0),
        bertscope.uniform(4),
        bertscope.block_attention(5, keys="special"),
    ]
    left, right, mean, rows = np.ones((3, 2)), np.ones((2, 3)), np.arange(3), np.ones((2, 3))
    whole = sent(bertscope.erase(2, (left, right, mean)))
    assert sent(bertscope.erase(2, types.SimpleNamespace(left=left, right=right, mean=mean))) == whole
    positions = "all", "not_special", 7, np.arange(2, 4), [(4, 8), (0, 3, 1)], bertscope.Span(4, 8)
    patch = bertscope.patch(
        3,
        ("a", "b"),
        site="heads",
        units=[1],
        positions=[1, 2],
        source_positions=[3, 4],
        source_layer=5,
        model="other",
        interventions=bertscope.scale_site(0, 7, factor=0),
    )
    stored(
        one_list=request(iter(changes)),
        sites=[sent(bertscope.scale_site(2, site=site, factor=0.5)) for site in SITES],
        means=[sent(bertscope.mean_site(2, site=site)) for site in SITES],
        positions=[sent(bertscope.set_site(0, VECTOR, positions=given)).positions for given in positions],
        rows=[sent(bertscope.set_site(1, rows, positions=given)) for given in ([4, 5], "masks")],
        additions=[sent(bertscope.add(3, VECTOR, strength=given)) for given in (None, np.float32(-2), 1)],
        erasers=[whole, sent(bertscope.erase(2, (left, right)))],
        patches=[sent(patch), sent(bertscope.patch(3, "a"))],
        blocks=sent(bertscope.block_attention(2, [0, 3], queries="masks", keys=[(0, 4)])),
    )


def test_what_is_no_change_is_refused(stored) -> None:
    positions = "mask", [], (4, 8), [3, 1], [1, 1], [-1], [(1, 2), 3], 1.5
    vectors = [1.0, np.nan], [1e39], [], 3.0, np.zeros((2, 2, 2)), ["a"], [[1.0], [1.0, 2.0]], [True]
    left, right = np.ones((3, 2)), np.ones((2, 3))
    erasers = (left,), left, (left, left), (np.ones((3, 257)), np.ones((257, 3))), (left, right, np.ones(2))
    stored(
        positions=[outcome(lambda given=given: bertscope.set_site(0, VECTOR, positions=given)) for given in positions],
        vectors=[outcome(lambda given=given: bertscope.add(0, given)) for given in vectors],
        rows=lambda: bertscope.set_site(1, np.ones((2, 3)), positions=[1, 2, 3]),
        erasers=[outcome(lambda given=given: bertscope.erase(2, given)) for given in erasers],
        others=[
            lambda: request([bertscope.add(3, VECTOR), "zero"]),
            lambda: bertscope.add(3, np.zeros(3), strength=1),
            lambda: bertscope.add(3, np.ones((1, 3)), strength=1),
            lambda: bertscope.add(3, VECTOR, strength=np.inf),
            lambda: bertscope.patch(3, "a", interventions=[bertscope.zero(1)]),
            lambda: bertscope.block_attention(2, queries="none", keys="all"),
            lambda: bertscope.mean_site(2, 3),
            lambda: bertscope.scale_site(2, [], factor=0),
            lambda: bertscope.scale_site(2, site="attention_weights", factor=0),
            lambda: bertscope.scale_site(-1, factor=0),
        ],
    )
