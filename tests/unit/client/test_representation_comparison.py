"""CKA from sums: replies read, merged, drawn and listed, and replies that break the contract."""

from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations.comparison import (
    RepresentationComparison,
    comparison_columns,
    comparison_document,
    read_comparison,
)
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_geometry_pb2 as geometry_pb2

REQUEST = geometry_pb2.CompareRepresentationsRequest()
CHANGED = geometry_pb2.CompareRepresentationsRequest(interventions=[common_pb2.HeadIntervention()])


def source(name: str, digest: str = "0") -> common_pb2.Provenance:
    return common_pb2.Provenance(model=name, weights_digest="sha256:" + digest * 64, numbering=common_pb2.NUMBERING_ZERO_BASED)


def reply(scale: float = 1, **changed: object) -> geometry_pb2.CompareRepresentationsResponse:
    fields: dict[str, object] = {
        "layers": [0, 4],
        "other_layers": [1, 2, 3],
        "texts": 3,
        "compared_texts": 2,
        "compared_words": 9,
        "tokens": 15,
        "shared": [scale * value for value in (1.0, 2.0, 0.5, 3.0, 4.0, -1.0)],
        "own": [scale * value for value in (2.0, 8.0)],
        "other": [scale * value for value in (0.5, 2.0, 0.0)],
        "provenance": source("models/one"),
        "other_provenance": source("models/two", "1"),
    }
    return geometry_pb2.CompareRepresentationsResponse(**{**fields, **changed})  # type: ignore[arg-type]


def test_cka_of_the_sums_of_several_replies():
    parts = [read_comparison(reply(), REQUEST), read_comparison(reply(3), REQUEST)]
    whole = RepresentationComparison.merge(parts)
    assert repr(whole).splitlines()[0] == "<RepresentationComparison: 2 x 3 layers, 4 texts, models/one and models/two>"
    np.testing.assert_allclose(whole.shared, 4 * parts[0].shared)
    expected = [[1, 1, np.nan], [1.5, 1, np.nan]]  # sums, not a share of a whole: an estimate of few texts may be above 1
    np.testing.assert_allclose(whole.cka(), expected)
    columns = comparison_columns(whole)
    assert (columns["layer"].tolist(), columns["other_layer"].tolist()) == ([0, 0, 0, 4, 4, 4], [1, 2, 3, 1, 2, 3])
    assert whole.to_pandas().shape == (6, 4)
    assert comparison_document(whole)["cka"][1][0] == pytest.approx(1.5)
    for unlike in (read_comparison(reply(layers=[0, 3]), REQUEST), read_comparison(reply(), CHANGED)):
        with pytest.raises(bertscope.InvalidArgument, match="only equal ones merge"):
            RepresentationComparison.merge([whole, unlike])
    with pytest.raises(bertscope.FailedPrecondition, match="other weights"):
        RepresentationComparison.merge([whole, read_comparison(reply(other_provenance=source("models/two", "2")), REQUEST)])


def test_names_of_what_is_compared(tmp_path: Path):
    same = {"other_provenance": source("models/one")}
    alone, changed = read_comparison(reply(**same), REQUEST), read_comparison(reply(**same), CHANGED)
    assert (alone.models, changed.models) == ("models/one", "models/one, untouched and under interventions")
    assert read_comparison(reply(), CHANGED).models == "models/one and models/two under interventions"
    for number, found in enumerate((alone, changed, read_comparison(reply(), REQUEST))):
        path = tmp_path / f"{number}.svg"
        bertscope.save_representations(found, path, dark=number == 1)
        assert path.stat().st_size > 1000
    axes = bertscope.plot_representations(alone).axes[0]
    assert axes.get_xlabel() == axes.get_ylabel() == "layer (0: embeddings)"
    assert [text.get_text() for text in axes.texts] == ["1.00", "1.00", "1.50", "1.00"]


@pytest.mark.parametrize("broken", [{"layers": []}, {"shared": [1.0]}, {"own": [1.0]}, {"other": []}])
def test_a_reply_that_breaks_the_contract(broken):
    with pytest.raises(bertscope.InvalidReply):
        read_comparison(reply(**broken), REQUEST)
