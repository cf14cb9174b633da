"""Scores of relations and features: replies read, merged, ranked and compared with baselines."""

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.feature_scores import read_feature_scores
from bertscope.questions.attention.relation_scores import read_relation_scores
from bertscope.v1 import attention_relations_pb2 as relations_pb2
from bertscope.values.intervals import ratio_interval

from tests.support.broken_replies import refusals
from tests.support.descriptions import feature_scores, relation_scores

MESSAGE = relation_scores({"nsubj": 2, "det": 1}, 3, 4)
SCORES = read_relation_scores(MESSAGE)


def details_of(message: relations_pb2.ScoreRelationsResponse, relation: int, direction: str) -> np.ndarray:
    """The pairs found in each text, [texts, layers, heads]."""
    chosen = [getattr(detail, f"{direction}_correct") for detail in message.details if detail.relation == relation]
    return np.array(chosen).reshape(-1, message.layers, message.heads)


@pytest.mark.parametrize(("index", "direction"), [(0, "forward"), (1, "backward")])
def test_accuracies_and_weights_are_those_of_the_pairs(index, direction):
    message, relation = MESSAGE.relations[index], SCORES[MESSAGE.relations[index].relation]
    found = details_of(MESSAGE, index, direction).sum(0) / message.pairs
    np.testing.assert_allclose(relation.accuracy(direction), found)
    np.testing.assert_allclose(relation.chance(direction), 0.3 * found)
    sums = getattr(message, direction).largest_weight
    np.testing.assert_allclose(relation.largest_weight(direction).ravel(), np.array(sums.sums) / sums.texts)
    np.testing.assert_allclose(relation.largest_weight_by_chance(direction), relation.largest_weight(direction) / 2)
    layer, head = relation.best_head(direction)
    assert relation.accuracy(direction)[layer, head] == relation.accuracy(direction).max()


def test_parts_add_up_by_name():
    parts = [
        relation_scores(pairs, 3, 4, texts=7, seed=seed) for seed, pairs in enumerate([{"a": 1, "b": 2}, {"b": 3}, {"c": 1}])
    ]
    merged = bertscope.RelationScores.merge(map(read_relation_scores, parts))
    assert (list(merged.relations), merged.texts) == (["a", "b", "c"], 21)
    both = merged["b"]
    assert (both.pairs, both.skipped_pairs, len(both.details)) == (14 + 21, 4, 14)
    expected = details_of(parts[0], 1, "forward").sum(0) + details_of(parts[1], 0, "forward").sum(0)
    np.testing.assert_array_equal(both.forward.correct, expected)
    assert sum(both.offsets.values()) == both.pairs
    assert list(both.offsets) == sorted(both.offsets, key=lambda offset: (abs(offset), -offset))
    for offset, count in both.offsets.items():
        of_parts = [*parts[0].relations[1].offsets, *parts[1].relations[0].offsets]
        assert count == sum(each.pairs for each in of_parts if each.offset == offset)
    with pytest.raises(bertscope.InvalidArgument, match="heads"):
        bertscope.RelationScores.merge([SCORES, read_relation_scores(relation_scores({"a": 1}, 3, 5))])


def test_texts_that_are_all_alike_have_the_adjusted_interval():
    """Agresti and Coull 1998: of 9 of 9, two texts are added at each end, 1.92 at a confidence of 95 %."""
    extra = 1.959964**2 / 2
    middle = (9 + extra) / (9 + 2 * extra)
    reach = 1.959964 * np.sqrt(middle * (1 - middle) / (9 + 2 * extra - 1))
    for found, expected in ((9.0, (middle - reach, 1.0)), (0.0, (0.0, 1 - middle + reach))):
        values = np.full(9, found / 9)
        assert ratio_interval(2 * values, np.full(9, 2.0), (0, 1)) == pytest.approx(expected, abs=1e-6)


def test_tables_and_best_heads(stored) -> None:
    message = relation_scores({"nsubj": 2, "det": 1}, 2, 2, texts=6)
    message.relations.add().CopyFrom(relation_scores({"none": 0}, 2, 2, texts=1, details=False).relations[0])
    offsets = relation_scores({"a": 1}, 1, 2, texts=7, details=False)
    del offsets.relations[0].offsets[:]
    for offset, pairs in ((-1, 2), (1, 2), (3, 1), (-2, 2)):  # of equals the nearest is taken, and the next word first
        offsets.relations[0].offsets.add(offset=offset, pairs=pairs)
    heads = relation_scores({"a": 4}, 1, 5, details=False)
    heads.relations[0].forward.correct[:] = [1, 9, 4, 4, 0]
    scores, offset = read_relation_scores(message), read_relation_scores(offsets)["a"]
    stored(
        scores=scores.to_pandas(),
        shown=repr(scores),
        best=list(scores.best_heads()),
        best_on_the_same=scores["nsubj"].best(select="same"),
        frame_of_best=scores.best_heads("forward").to_pandas(),
        no_pair=[scores["none"].accuracy(), scores["none"].offset_accuracy],
        no_details=read_relation_scores(relation_scores({"a": 2}, 3, 4, details=False)).best_heads().to_pandas(),
        offsets=[offset.best_offset, offset.offset_accuracy, offset.best("forward").offset, offset.best("backward").offset],
        percentiles=read_relation_scores(heads)["a"].percentile(),
        refused=[lambda: scores["other"], lambda: scores["nsubj"].accuracy("sideways")],  # type: ignore[arg-type]
        broken=refusals(lambda messages: read_relation_scores(*messages), relation_scores({"a": 2}, 2, 2, texts=2)),
    )


def test_features_add_up_and_have_a_table(stored) -> None:
    parts = [feature_scores(["noun", "[CLS]"], 2, 2, texts=5, seed=1), feature_scores(["verb", "[CLS]"], 2, 2, texts=4, seed=2)]
    scores = bertscope.FeatureScores.merge(map(read_feature_scores, parts))
    expected = sum(np.array(part.features[1].attention.sums) for part in parts) / 9
    np.testing.assert_allclose(scores.attention("[CLS]").ravel(), expected)
    stored(
        scores=scores,
        columns=scores.columns(),
        computed=[scores.attention("noun"), scores.from_first_special("verb"), lambda: scores["other"]],
        broken=refusals(lambda messages: read_feature_scores(*messages), parts[0]),
    )
