"""Descriptions of attention: replies read, merged and summarised; heads by their distances."""

import math

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.description import (
    PATTERNS,
    STATISTICS,
    document,
    read_description,
)
from bertscope.questions.attention.head_distances import average_linkage
from bertscope.questions.attention.statistics_requests import describe_attention_request
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from bertscope.v1 import common_pb2
from bertscope.values.messages import with_items
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from tests.support.descriptions import Numbers, description, divergences

NUMBERS = Numbers(9, 3, 4)
WHOLE = read_description(description(NUMBERS, distances=True))
DEFAULTS = {
    "model": None,
    "layers": None,
    "punctuation": None,
    "head_distances": False,
    "quantity": "weights",
    "interventions": (),
    "reference_texts": (),
    "truncate": False,
}


def test_names_are_those_of_the_contract():
    assert STATISTICS[:2] == ("first_special", "separators")
    assert len(STATISTICS) == len(statistics_pb2.AttentionStatistic.values()) - 1
    assert PATTERNS == ("vertical", "diagonal", "vertical_diagonal", "block", "heterogeneous")


@pytest.mark.parametrize("index", range(len(STATISTICS)))
def test_means_and_standard_errors_are_those_of_the_texts(index):
    values = NUMBERS.statistics[index]
    np.testing.assert_allclose(WHOLE.mean(STATISTICS[index]), values.mean(0), rtol=0, atol=1e-12)
    expected = values.std(0, ddof=1) / math.sqrt(len(values))
    np.testing.assert_allclose(WHOLE.standard_error(STATISTICS[index]), expected, rtol=0, atol=1e-9)


def test_shares_scores_and_majorities_are_those_of_the_texts():
    classes = NUMBERS.scores.argmax(-1)
    for index, name in enumerate(PATTERNS):
        np.testing.assert_allclose(WHOLE.pattern_share(name), (classes == index).mean(0))
        np.testing.assert_allclose(WHOLE.pattern_score(name), NUMBERS.scores[..., index].mean(0))
    most = [[PATTERNS[np.bincount(classes[:, layer, head], minlength=5).argmax()] for head in range(4)] for layer in range(3)]
    assert WHOLE.majority().tolist() == most


def test_a_pruned_head_has_no_pattern():
    message = description(NUMBERS)
    for pattern in message.patterns:
        pattern.texts[5] = 0
    assert read_description(message).majority()[1, 1] == ""


def test_parts_add_up_to_the_whole():
    parts = [read_description(description(NUMBERS, slice(*ends), distances=True)) for ends in ((0, 1), (1, 5), (5, 9))]
    merged = bertscope.AttentionDescription.merge(parts)
    assert (merged.texts, merged.tokens, merged.truncated_texts) == (9, WHOLE.tokens, 3)
    for name in STATISTICS:
        np.testing.assert_allclose(merged.mean(name), WHOLE.mean(name), rtol=0, atol=1e-12)
        np.testing.assert_allclose(merged.statistics[name].squares, WHOLE.statistics[name].squares, rtol=0, atol=1e-12)
    for name in PATTERNS:
        np.testing.assert_array_equal(merged.patterns[name].texts, WHOLE.patterns[name].texts)
        np.testing.assert_allclose(merged.pattern_score(name), WHOLE.pattern_score(name), rtol=0, atol=1e-12)
    assert merged.head_distances is not None and WHOLE.head_distances is not None
    np.testing.assert_allclose(merged.head_distances.divergences(), WHOLE.head_distances.divergences(), rtol=0, atol=1e-12)


def test_a_statistic_that_only_some_texts_have_is_over_these():
    single = read_description(description(NUMBERS, slice(0, 4), pairs=False))
    pairs = read_description(description(NUMBERS, slice(4, 9)))
    merged = bertscope.AttentionDescription.merge([single, pairs])
    assert list(merged.statistics) == list(STATISTICS)
    assert merged.statistics["other_text"].texts == 5
    expected = NUMBERS.statistics[STATISTICS.index("other_text")][4:].mean(0)
    np.testing.assert_allclose(merged.mean("other_text"), expected)
    with pytest.raises(KeyError, match="no text has the statistic 'other_text'"):
        single.mean("other_text")


def test_parts_that_do_not_belong_together_are_refused():
    other = description(NUMBERS)
    other.provenance.weights_digest = "sha256:" + "1" * 64
    with pytest.raises(bertscope.FailedPrecondition, match="other weights"):
        bertscope.AttentionDescription.merge([WHOLE, read_description(other)])
    with pytest.raises(bertscope.InvalidArgument, match="has_head_distances"):
        bertscope.AttentionDescription.merge([WHOLE, read_description(description(NUMBERS))])
    with pytest.raises(bertscope.InvalidArgument, match="layers"):
        bertscope.AttentionDescription.merge([WHOLE, read_description(description(NUMBERS, layers=[2, 1, 0], distances=True))])
    with pytest.raises(bertscope.InvalidArgument, match="parts"):
        bertscope.AttentionDescription.merge([])


def test_fewer_than_two_texts_have_no_standard_error():
    one = read_description(description(NUMBERS, slice(0, 1)))
    assert np.isnan(one.standard_error("entropy")).all()
    assert not np.isnan(one.mean("entropy")).any()


@pytest.mark.parametrize("field", ["statistics", "patterns", "head_distances"])
def test_numbers_of_another_shape_break_the_contract(field):
    message = description(NUMBERS, distances=True)
    if field == "statistics":
        message.statistics[0].sums.sums.append(1.0)
    elif field == "patterns":
        message.patterns[0].texts.pop()
    else:
        message.head_distances.sums.pop()
    with pytest.raises(bertscope.InvalidReply, match="where"):
        read_description(message)


def test_a_statistic_that_comes_twice_breaks_the_contract():
    message = description(NUMBERS)
    message.statistics.append(message.statistics[0])
    with pytest.raises(bertscope.InvalidReply, match="twice"):
        read_description(message)


def test_a_statistic_of_a_newer_server_goes_by_its_number():
    message = description(NUMBERS)
    added = message.statistics.add(statistic=99)  # type: ignore[arg-type]  # of a newer contract
    added.sums.CopyFrom(message.statistics[0].sums)
    assert "99" in read_description(message).statistics


def test_the_table_has_a_row_for_each_head():
    frame = read_description(description(NUMBERS, layers=[5, 0, 2])).to_pandas()
    assert len(frame) == 12
    assert frame["layer"].tolist() == [5] * 4 + [0] * 4 + [2] * 4
    np.testing.assert_allclose(frame["entropy"], WHOLE.mean("entropy").ravel())
    assert {"entropy_error", "share_vertical", "score_block", "pattern"} <= set(frame)
    assert "<table" in (WHOLE._repr_html_() or "")
    assert repr(WHOLE).splitlines()[0] == f"<AttentionDescription: 3 x 4 heads, 9 texts, {WHOLE.tokens} tokens, models/fake>"


def test_the_document_holds_every_number():
    found = document(WHOLE)
    np.testing.assert_allclose(found["statistics"]["self"]["mean"], WHOLE.mean("self"))
    assert found["patterns"]["block"]["texts"] == WHOLE.patterns["block"].texts.tolist()
    assert len(found["head_divergences"]) == 12


def test_a_request_has_what_was_asked():
    arguments = DEFAULTS | {"layers": [2, 0], "punctuation": "!", "head_distances": True, "interventions": bertscope.zero(1)}
    request = with_items(describe_attention_request(**arguments), "inputs", [common_pb2.TextInput(text="a")])
    assert (list(request.layers), list(request.punctuation), request.head_distances) == ([2, 0], ["!"], True)
    assert (len(request.interventions), request.inputs[0].text) == (1, "a")
    assert not describe_attention_request(**DEFAULTS).punctuation
    for wrong in ({"punctuation": []}, {"layers": -1}, {"head_distances": 1}):
        with pytest.raises(bertscope.InvalidArgument):
            describe_attention_request(**(DEFAULTS | wrong))


def distances_of(sums: np.ndarray, texts: int = 1) -> bertscope.HeadDistances:
    return bertscope.HeadDistances(tuple((0, head) for head in range(len(sums))), texts, sums)


def test_points_of_a_plane_come_back_from_their_distances():
    points = np.random.default_rng(3).standard_normal((9, 2))
    squared = ((points[:, None] - points[None]) ** 2).sum(-1)
    found = distances_of(7 * squared, 7)
    places = found.coordinates()
    np.testing.assert_allclose(((places[:, None] - places[None]) ** 2).sum(-1), squared, atol=1e-12)
    assert (places.var(0)[0], places.max(0).tolist()) >= (places.var(0)[1], [0, 0])
    np.testing.assert_allclose(found.coordinates(3)[:, 2], 0, atol=1e-6)
    np.testing.assert_allclose(found.distances() ** 2, squared)


def test_divergences_are_exact_in_enough_dimensions():
    """The root of a Jensen-Shannon divergence is a distance in a Euclidean space."""
    squared = divergences(np.random.default_rng(5).dirichlet(np.ones(6), 8))
    places = distances_of(squared).coordinates(8)
    np.testing.assert_allclose(((places[:, None] - places[None]) ** 2).sum(-1), squared, atol=1e-12)


@pytest.mark.parametrize("number", [1, 2, 5, 30])
def test_clusters_are_those_of_average_linkage(number):
    points = np.random.default_rng(number).standard_normal((30, 3))
    between = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    tree = linkage(squareform(between, checks=False), "average")
    expected = fcluster(tree, number, "maxclust")
    labels = average_linkage(between, number)
    assert len(set(labels)) == number
    assert len(set(zip(labels, expected, strict=True))) == number
    found = distances_of(between**2).clusters(number)
    sizes = np.bincount(found)
    assert sorted(sizes, reverse=True) == sizes.tolist()
    assert len(set(zip(labels, found, strict=True))) == number


def test_numbers_that_there_cannot_be_are_refused():
    found = distances_of(np.zeros((3, 3)))
    np.testing.assert_array_equal(found.coordinates(), np.zeros((3, 2)))
    assert found.coordinates(5).shape == (3, 5)
    for call, number in ((found.coordinates, 0), (found.clusters, 0), (found.clusters, 4)):
        with pytest.raises(bertscope.InvalidArgument):
            call(number)


def test_a_description_is_of_the_quantity_that_was_asked_for():
    rollout = statistics_pb2.ATTENTION_QUANTITY_ROLLOUT
    message = description(NUMBERS)
    assert read_description(message).quantity == "weights"
    assert describe_attention_request(**(DEFAULTS | {"quantity": "rollout"})).quantity == rollout
    with pytest.raises(bertscope.InvalidReply, match="weights and not rollout"):
        read_description(message, statistics_pb2.DescribeAttentionRequest(quantity=rollout))
    message.quantity = rollout
    found = read_description(message, statistics_pb2.DescribeAttentionRequest(quantity=rollout))
    assert (found.quantity, document(found)["quantity"]) == ("rollout", "rollout")
    with pytest.raises(bertscope.InvalidArgument, match="quantity"):
        bertscope.AttentionDescription.merge([found, read_description(description(NUMBERS))])
