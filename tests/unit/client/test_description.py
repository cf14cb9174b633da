"""Descriptions of attention: replies read, merged and summarised; heads by their distances."""

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.description import PATTERNS, STATISTICS, document, read_description
from bertscope.questions.attention.sums import average_linkage
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from tests.support.broken_replies import refusals
from tests.support.descriptions import Numbers, description

NUMBERS = Numbers(9, 3, 4)
WHOLE = read_description(description(NUMBERS, distances=True))


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


@pytest.mark.parametrize("number", [1, 5, 30])
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


def test_a_reply_as_it_is_read(stored) -> None:
    rollout = statistics_pb2.ATTENTION_QUANTITY_ROLLOUT
    message = description(Numbers(2, 2, 2), distances=True, layers=[5, 0])
    one = description(Numbers(1, 1, 2))
    for pattern in one.patterns:
        pattern.texts[1] = 0  # a head that was pruned away
    one.quantity = rollout
    added = one.statistics.add(statistic=99)  # type: ignore[arg-type]  # of a newer contract
    added.sums.CopyFrom(one.statistics[0].sums)
    asked = statistics_pb2.DescribeAttentionRequest(quantity=rollout)
    found, single = read_description(message), read_description(one, asked)
    other = description(NUMBERS)
    other.provenance.weights_digest = "sha256:" + "1" * 64
    unlike = other, description(NUMBERS), description(NUMBERS, layers=[2, 1, 0], distances=True)
    stored(
        description=found,
        document=document(found),
        of_one_text=[single.majority(), single.standard_error("entropy"), single.mean("99"), single.quantity],
        refused=[
            lambda: read_description(message, asked),
            lambda: bertscope.AttentionDescription.merge([single, read_description(description(Numbers(1, 1, 2)))]),
            *(lambda part=part: bertscope.AttentionDescription.merge([WHOLE, read_description(part)]) for part in unlike),
            lambda: bertscope.AttentionDescription.merge([]),
        ],
        broken=refusals(lambda messages: read_description(*messages), description(Numbers(1, 1, 2), distances=True)),
    )
