"""Changes at sites are messages as written, and what can't be sent is refused with what to do."""

import doctest
import types

import bertscope
import numpy as np
import pytest
from bertscope.questions.cloze.requests import fill_mask_request
from bertscope.v1 import common_pb2, site_pb2
from bertscope.values import site_changes

VECTOR = np.arange(3.0)


def request(interventions):
    return fill_mask_request(
        model=None, top_k=None, candidates=None, interventions=interventions, reference_texts=(), truncate=False
    )


def sent(change):
    (message,) = request(change).site_interventions
    return message


def array(tensor):
    assert tensor.dtype == common_pb2.DATA_TYPE_FLOAT32
    return np.frombuffer(tensor.data, "<f4").reshape(tuple(tensor.shape)).tolist()


def test_one_list_has_changes_of_heads_and_of_sites_in_their_orders():
    changes = [
        bertscope.add(3, VECTOR),
        bertscope.zero(1, 2),
        bertscope.mean_site(0),
        bertscope.uniform(4),
        bertscope.block_attention(5, keys="special"),
    ]
    found = request(iter(changes))
    assert [each.layer for each in found.interventions] == [1, 4]
    assert [each.layer for each in found.site_interventions] == [3, 0, 5]
    assert len(request(changes[0]).site_interventions) == 1
    assert not request(()).site_interventions
    with pytest.raises(bertscope.InvalidArgument, match=r"interventions\[1\]: must be made by .*block_attention"):
        request([changes[0], "zero"])


@pytest.mark.parametrize(
    ("site", "number"), [("state", 1), ("heads", 2), ("attention", 3), ("neurons", 4), ("feed_forward", 5)]
)
def test_sites_go_by_their_names(site, number):
    assert sent(bertscope.scale_site(2, site=site, factor=0.5)).site == number
    assert sent(bertscope.mean_site(2, site=site)).change.WhichOneof("change") == "mean"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("all", site_pb2.Positions(kind=site_pb2.Positions.KIND_ALL)),
        ("not_special", site_pb2.Positions(kind=site_pb2.Positions.KIND_NOT_SPECIAL)),
        (7, site_pb2.Positions(tokens=site_pb2.TokenIndexes(tokens=[7]))),
        (np.arange(2, 4), site_pb2.Positions(tokens=site_pb2.TokenIndexes(tokens=[2, 3]))),
        ([(4, 8), (0, 3, 1)], "spans"),
        (bertscope.Span(4, 8), "span"),
    ],
)
def test_positions_are_kinds_tokens_or_spans(given, expected):
    if isinstance(expected, str):
        spans = [common_pb2.CharacterSpan(start=4, end=8), common_pb2.CharacterSpan(start=0, end=3, segment=1)]
        expected = site_pb2.Positions(spans=site_pb2.CharacterSpans(spans=spans[: 1 + (expected == "spans")]))
    assert sent(bertscope.set_site(0, VECTOR, positions=given)).positions == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("mask", "must be one of all, masks, first, special, not_special"),
        ([], "is empty; name at least one position"),
        ((4, 8), r"may be tokens or a part of the text; write \[4, 8\] for tokens, or \[\(4, 8\)\] for a part"),
        ([3, 1], "must ascend"),
        ([1, 1], "names? no token twice"),
        ([-1], r"positions\[0\]: must be 0 to"),
        ([(1, 2), 3], r"positions\[1\]: must be a tuple"),
        (1.5, "numbers of tokens, or spans"),
    ],
)
def test_other_positions_are_refused(given, says):
    with pytest.raises(bertscope.InvalidArgument, match=says):
        bertscope.set_site(0, VECTOR, positions=given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([1.0, np.nan], "must be finite in float32"),
        ([1e39], "must be finite in float32"),
        ([], r"must be \[size\], or \[positions, size\], and its shape is \[0\]"),
        (3.0, r"its shape is \[\]"),
        (np.zeros((2, 2, 2)), r"its shape is \[2, 2, 2\]"),
        (["a"], "must be an array of numbers"),
        ([[1.0], [1.0, 2.0]], "must be an array of numbers"),
        ([True], "must be an array of numbers"),
    ],
)
def test_other_vectors_are_refused(given, says):
    for make in (bertscope.set_site, bertscope.add):
        with pytest.raises(bertscope.InvalidArgument, match=says) as caught:
            make(0, given)
        assert caught.value.field_violations[0].field == "vector"


def test_vectors_are_copies_that_nobody_changes():
    given = np.ones(2)
    change = bertscope.set_site(1, given)
    given[:] = 5
    assert array(sent(change).change.set) == [1, 1]
    with pytest.raises(ValueError, match="read-only"):
        change.change.vector[0] = 2


def test_as_many_rows_as_positions():
    rows = np.ones((2, 3))
    assert array(sent(bertscope.set_site(1, rows, positions=[4, 5])).change.set) == rows.tolist()
    assert array(sent(bertscope.set_site(1, rows, positions="masks")).change.set) == rows.tolist()
    with pytest.raises(bertscope.InvalidArgument, match="has 2 rows for 3 positions"):
        bertscope.set_site(1, rows, positions=[1, 2, 3])


def test_an_addition_has_a_strength_or_none():
    assert not sent(bertscope.add(3, VECTOR)).change.add.HasField("strength")
    assert sent(bertscope.add(3, VECTOR, strength=np.float32(-2))).change.add.strength == -2
    assert array(sent(bertscope.add(3, VECTOR, strength=1)).change.add.vector) == [0, 1, 2]
    for vector in (np.zeros(3), np.ones((1, 3))):
        with pytest.raises(bertscope.InvalidArgument, match=r"one direction \[size\], and not 0, with strength"):
            bertscope.add(3, vector, strength=1)
    with pytest.raises(bertscope.InvalidArgument, match="strength: must be finite"):
        bertscope.add(3, VECTOR, strength=np.inf)


def test_an_eraser_is_its_parts_or_an_object_with_them():
    left, right, mean = np.ones((3, 2)), np.ones((2, 3)), np.arange(3)
    whole = sent(bertscope.erase(2, (left, right, mean))).change.erase
    assert (array(whole.left), array(whole.right), array(whole.mean)) == (left.tolist(), right.tolist(), mean.tolist())
    assert sent(bertscope.erase(2, types.SimpleNamespace(left=left, right=right, mean=mean))).change.erase == whole
    assert not sent(bertscope.erase(2, (left, right))).change.erase.HasField("mean")


@pytest.mark.parametrize(
    ("eraser", "says"),
    [
        ((np.ones((3, 2)),), r"\(left, right\) or \(left, right, mean\), not one of 1"),
        (np.ones((3, 2)), "must have left and right"),
        ((np.ones((3, 2)), np.ones((3, 2))), r"left is \(3, 2\), right \(3, 2\)"),
        ((np.ones((3, 257)), np.ones((257, 3))), "rank 1 to 256"),
        ((np.ones((3, 2)), np.ones((2, 3)), np.ones(2)), r"must be \[3\]"),
    ],
)
def test_other_erasers_are_refused(eraser, says):
    with pytest.raises(bertscope.InvalidArgument, match=says):
        bertscope.erase(2, eraser)


def test_a_patch_names_its_run():
    change = bertscope.patch(
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
    message = sent(change)
    source = message.change.source
    assert (message.site, list(message.units)) == (site_pb2.SITE_HEAD_OUTPUT, [1])
    assert (source.input.text, source.input.text_pair, source.model, source.layer) == ("a", "b", "models/other", 5)
    assert list(source.positions.tokens.tokens) == [3, 4]
    assert source.interventions[0].change.scale == 0
    assert source.interventions[0].change.WhichOneof("change") == "scale"
    plain = sent(bertscope.patch(3, "a")).change.source
    assert not plain.HasField("positions")
    assert not plain.HasField("layer")
    with pytest.raises(bertscope.InvalidArgument, match="must be a SiteIntervention"):
        bertscope.patch(3, "a", interventions=[bertscope.zero(1)])


def test_a_block_has_queries_and_keys():
    message = sent(bertscope.block_attention(2, [0, 3], queries="masks", keys=[(0, 4)]))
    assert (message.site, list(message.units)) == (site_pb2.SITE_ATTENTION, [0, 3])
    assert message.positions.kind == site_pb2.Positions.KIND_MASKS
    assert [(span.start, span.end) for span in message.change.block.spans.spans] == [(0, 4)]
    with pytest.raises(bertscope.InvalidArgument, match="queries: must be one of all"):
        bertscope.block_attention(2, queries="none", keys="all")


def test_only_heads_and_neurons_are_units():
    with pytest.raises(bertscope.InvalidArgument, match='are heads or neurons, and site "state" has none'):
        bertscope.mean_site(2, 3)
    with pytest.raises(bertscope.InvalidArgument, match="units: is empty"):
        bertscope.scale_site(2, [], factor=0)
    with pytest.raises(bertscope.InvalidArgument, match="must be one of state, heads"):
        bertscope.scale_site(2, site="attention_weights", factor=0)
    with pytest.raises(bertscope.InvalidArgument, match="layer: is -1"):
        bertscope.scale_site(-1, factor=0)


def test_examples():
    assert doctest.testmod(site_changes).failed == 0
