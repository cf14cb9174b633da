"""Values of texts: replies read, rankings, tables, and replies that break the contract."""

import bertscope
import pytest
from bertscope.questions.labels.regression import query_pairs, ranked_candidates, read_predicted_values
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2 as common


def reply(*values: float) -> classification.PredictValuesResponse:
    results = [classification.PredictedValue(value=value, tokens=5, truncated_tokens=1) for value in values]
    return classification.PredictValuesResponse(results=results)


def test_a_reply_and_its_ranking() -> None:
    pairs = query_pairs("q", ["low", "high", "same"])
    assert pairs == [("q", "low"), ("q", "high"), ("q", "same")]
    inputs = [common.TextInput(text=text, text_pair=pair) for text, pair in pairs]
    found = read_predicted_values(inputs, reply(-1.5, 2.0, -1.5))
    assert [(one.text, one.text_pair, one.value, one.tokens) for one in found][1] == ("q", "high", 2.0, 5)
    assert found[0].to_row() == {"value": -1.5, "truncated_tokens": 1}
    assert found.to_pandas().values.tolist()[0] == ["q", "low", -1.5, 1]
    ranked = ranked_candidates(found)
    assert [(one.candidate, one.index) for one in ranked] == [("high", 1), ("low", 0), ("same", 2)]
    assert ranked.to_pandas()["rank"].tolist() == [1, 2, 3]
    (alone,) = read_predicted_values([common.TextInput(text="a")], reply(0))
    assert alone.text_pair is None


def test_a_reply_that_breaks_the_contract() -> None:
    with pytest.raises(bertscope.InvalidReply, match="0 of 1 texts"):
        read_predicted_values([common.TextInput(text="a")], reply())
