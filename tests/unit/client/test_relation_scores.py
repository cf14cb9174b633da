"""Scores of relations and features: replies read, merged, ranked and compared with baselines."""

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.feature_scores import feature_columns
from bertscope.questions.attention.relation_replies import read_feature_scores, read_relation_scores
from bertscope.v1 import attention_relations_pb2 as relations_pb2
from bertscope.values.intervals import ratio_interval

from tests.support.descriptions import feature_scores, relation_scores

MESSAGE = relation_scores({"nsubj": 2, "det": 1}, 3, 4)
SCORES = read_relation_scores(MESSAGE)


def details_of(message: relations_pb2.ScoreRelationsResponse, relation: int, direction: str) -> np.ndarray:
    """The pairs found in each text, [texts, layers, heads]."""
    chosen = [getattr(detail, f"{direction}_correct") for detail in message.details if detail.relation == relation]
    return np.array(chosen).reshape(-1, message.layers, message.heads)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("index", [0, 1])
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


def test_percentiles_count_the_other_heads_that_are_worse():
    message = relation_scores({"a": 4}, 1, 5, details=False)
    del message.relations[0].forward.correct[:]
    message.relations[0].forward.correct.extend([1, 9, 4, 4, 0])
    np.testing.assert_allclose(read_relation_scores(message)["a"].percentile(), [[25, 100, 62.5, 62.5, 0]])


def test_the_best_offset_is_the_most_frequent_and_of_equals_the_nearest():
    message = relation_scores({"a": 1}, 1, 2, texts=7, details=False)
    del message.relations[0].offsets[:]
    for offset, pairs in ((-1, 2), (1, 2), (3, 1), (-2, 2)):
        message.relations[0].offsets.add(offset=offset, pairs=pairs)
    relation = read_relation_scores(message)["a"]
    assert (relation.best_offset, relation.offset_accuracy) == (1, 2 / 7)
    assert relation.best("forward").offset == 1
    assert relation.best("backward").offset == -1


def test_the_best_head_stands_beside_its_baselines():
    relation = SCORES["nsubj"]
    best = relation.best(select="same")
    assert best.accuracy == best.chosen_accuracy == max(relation.accuracy("forward").max(), relation.accuracy("backward").max())
    assert best.percentile == 100
    assert best.interval is not None and best.interval.low < best.accuracy < best.interval.high
    assert best.above_offset is not None
    assert best.above_offset.low < best.accuracy - best.offset_accuracy < best.above_offset.high
    assert best.beats_offset == (best.above_offset.low > 0)
    table = SCORES.best_heads("forward").to_pandas()
    assert table["relation"].tolist() == ["nsubj", "det"]
    assert set(table["direction"]) == {"forward"}
    assert table["low"].notna().all()


def test_without_details_there_are_no_intervals():
    scores = read_relation_scores(relation_scores({"a": 2}, 3, 4, details=False))
    best = scores["a"].best()
    assert (best.interval, best.above_offset, best.beats_offset) == (None, None, False)
    assert scores.best_heads().to_pandas()["low"].isna().all()


def test_a_relation_without_a_pair_has_no_numbers():
    message = relation_scores({"a": 2, "b": 1}, 2, 2)
    empty = message.relations.add(relation="none")
    empty.CopyFrom(relation_scores({"none": 0}, 2, 2, texts=1, details=False).relations[0])
    scores = read_relation_scores(message)
    assert np.isnan(scores["none"].accuracy()).all()
    assert np.isnan(scores["none"].offset_accuracy)
    assert [best.relation for best in scores.best_heads()] == ["a", "b"]
    with pytest.raises(KeyError, match="no text has the relation"):
        scores["other"]
    with pytest.raises(ValueError, match="direction must be"):
        scores["a"].accuracy("sideways")  # type: ignore[arg-type]


def test_all_pairs_are_looked_up_by_the_best_head_of_each_relation():
    for direction in ("forward", "backward"):
        found = sum(details_of(MESSAGE, index, direction).sum(0).max() for index in (0, 1))
        assert SCORES.combined_accuracy(direction, select="same") == found / 120
    better = [max(details_of(MESSAGE, index, each).sum(0).max() for each in ("forward", "backward")) for index in (0, 1)]
    assert SCORES.combined_accuracy(None, select="same") == sum(better) / 120
    offsets = sum(max(each.pairs for each in relation.offsets) for relation in MESSAGE.relations)
    assert SCORES.combined_offset_accuracy(select="same") == offsets / 120
    assert np.isnan(read_relation_scores(relation_scores({}, 1, 1)).combined_accuracy())


def test_tables_have_a_row_for_each_relation_direction_and_head():
    frame = SCORES.to_pandas()
    assert len(frame) == 2 * 2 * 12
    chosen = frame[(frame["relation"] == "det") & (frame["direction"] == "backward")]
    np.testing.assert_allclose(chosen["accuracy"], SCORES["det"].accuracy("backward").ravel())
    assert "<table" in (SCORES._repr_html_() or "")
    assert repr(SCORES).splitlines()[0] == "<RelationScores: 2 relations, 120 pairs, 40 texts, 3 x 4 heads, models/fake>"


@pytest.mark.parametrize("break_it", ["correct", "details", "relation", "twice"])
def test_replies_that_break_the_contract_are_refused(break_it):
    message = relation_scores({"a": 2}, 3, 4)
    if break_it == "correct":
        message.relations[0].forward.correct.append(1)
    elif break_it == "details":
        message.details[0].forward_correct.pop()
    elif break_it == "relation":
        message.details[0].relation = 7
    else:
        message.relations.append(message.relations[0])
    with pytest.raises(bertscope.InvalidReply):
        read_relation_scores(message)


def test_features_add_up_and_have_a_table():
    parts = [feature_scores(["noun", "[CLS]"], 3, 4, texts=5, seed=1), feature_scores(["verb", "[CLS]"], 3, 4, texts=4, seed=2)]
    scores = bertscope.FeatureScores.merge(map(read_feature_scores, parts))
    assert (list(scores.features), scores.texts) == (["noun", "[CLS]", "verb"], 9)
    expected = sum(np.array(part.features[1].attention.sums) for part in parts) / 9
    np.testing.assert_allclose(scores.attention("[CLS]").ravel(), expected)
    assert scores["noun"].attention.texts == 5
    assert scores.from_first_special("verb").shape == (3, 4)
    assert len(scores.to_pandas()) == len(feature_columns(scores)["feature"]) == 36
    assert repr(scores).splitlines()[0] == "<FeatureScores: 3 features, 9 texts, 3 x 4 heads, models/fake>"
    with pytest.raises(KeyError, match="no text has the feature"):
        scores["other"]


def test_intervals_hold_as_often_as_they_say():
    """Of 300 samples of 60 texts with 1 to 3 pairs, of which some texts are easier than others."""
    generator = np.random.default_rng(7)
    held = 0
    for seed in range(300):
        pairs = generator.integers(1, 4, 60).astype(float)
        found = generator.binomial(pairs.astype(int), generator.beta(3, 2, 60)).astype(float)
        interval = ratio_interval(found, pairs, (0, 1), resamples=400, seed=seed)
        assert interval is not None
        held += interval.low <= 0.6 <= interval.high
    assert 0.91 <= held / 300 <= 0.985


def test_intervals_are_the_same_for_a_seed_and_within_bounds():
    found, pairs = np.random.default_rng(2).integers(0, 8, 40).astype(float), np.full(40, 7.0)
    first = ratio_interval(found, pairs, (0, 1), seed=3)
    assert first == ratio_interval(found, pairs, (0, 1), seed=3) != ratio_interval(found, pairs, (0, 1), seed=4)
    narrow = ratio_interval(found, pairs, (0, 1), seed=3, confidence=0.5)
    wide = ratio_interval(np.arange(12.0) % 2, np.ones(12), (0, 1), seed=3, confidence=0.999)
    assert narrow is not None and first is not None and first.low < narrow.low
    assert wide is None or 0 <= wide.low < wide.high <= 1


@pytest.mark.parametrize(("texts", "share", "alike"), [(20, 0.95, 0.0), (40, 0.95, 0.2), (40, 0.99, 0.01), (100, 0.95, 0.01)])
def test_intervals_hold_where_texts_are_nearly_alike(texts, share, alike):
    """Where a bootstrap has no spread. 300 samples of 95 % miss more than 27 times with a probability below .1 %."""
    generator = np.random.default_rng(texts)
    held = 0
    for seed in range(300):
        pairs = generator.integers(1, 4, texts).astype(float)
        skill = generator.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), texts) if alike else share
        found = generator.binomial(pairs.astype(int), skill).astype(float)
        interval = ratio_interval(found, pairs, (0, 1), resamples=300, seed=seed)
        assert interval is not None
        held += interval.low <= share <= interval.high
    assert held >= 273


@pytest.mark.parametrize(("up", "down"), [(0.0, 0.0), (0.02, 0.02), (0.1, 0.02), (0.8, 0.0)])
def test_intervals_of_differences_hold_where_few_texts_differ(up, down):
    generator = np.random.default_rng(11)
    held = 0
    for seed in range(300):
        moved = generator.choice([1.0, -1.0, 0.0], 20, p=[up, down, 1 - up - down])
        interval = ratio_interval(moved, np.ones(20), (-1, 1), resamples=300, seed=seed)
        assert interval is not None
        held += interval.low <= up - down <= interval.high
    assert held >= 273


def test_texts_that_are_all_alike_have_the_adjusted_interval():
    """Agresti and Coull 1998: of 9 of 9, two texts are added at each end, 1.92 at a confidence of 95 %."""
    extra = 1.959964**2 / 2
    middle = (9 + extra) / (9 + 2 * extra)
    reach = 1.959964 * np.sqrt(middle * (1 - middle) / (9 + 2 * extra - 1))
    for found, expected in ((9.0, (middle - reach, 1.0)), (0.0, (0.0, 1 - middle + reach))):
        values = np.full(9, found / 9)
        assert ratio_interval(2 * values, np.full(9, 2.0), (0, 1)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("found", "pairs"), [([1.0] * 4, [1.0] * 4), ([0.0] * 9, [0.0] * 9), ([], [])])
def test_texts_that_are_too_few_have_no_interval(found, pairs):
    assert ratio_interval(np.array(found), np.array(pairs), (0, 1)) is None


@pytest.mark.parametrize("arguments", [{"confidence": 0.4}, {"confidence": 1}, {"resamples": 0}, {"seed": -1}])
def test_intervals_that_cannot_be_are_refused(arguments):
    with pytest.raises(bertscope.InvalidArgument):
        ratio_interval(np.arange(9.0), np.full(9, 9.0), (0, 1), **arguments)
