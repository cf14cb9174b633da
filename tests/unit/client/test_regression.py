"""Values of texts: replies read, rankings, tables, and replies that break the contract."""

from bertscope.questions.labels.regression import query_pairs, ranked_candidates, read_predicted_values
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2 as common


def reply(*values: float) -> classification.PredictValuesResponse:
    results = [classification.PredictedValue(value=value, tokens=5, truncated_tokens=1) for value in values]
    return classification.PredictValuesResponse(results=results)


def test_values_and_their_ranking(stored) -> None:
    pairs = query_pairs("q", ["low", "high", "same"])
    inputs = [common.TextInput(text=text, text_pair=pair) for text, pair in pairs]
    found = read_predicted_values(inputs, reply(-1.5, 2.0, -1.5))
    ranked = ranked_candidates(found)
    stored(
        pairs=pairs,
        value=found[1],
        row=found[0].to_row(),
        frame=found.to_pandas(),
        ranked=list(ranked),
        frame_of_ranks=ranked.to_pandas(),
        alone=read_predicted_values([common.TextInput(text="a")], reply(0))[0],
        broken=lambda: read_predicted_values([common.TextInput(text="a")], reply()),
    )
