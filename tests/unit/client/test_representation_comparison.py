"""CKA from sums: replies read, merged, drawn and listed, and replies that break the contract."""

import bertscope_workbench as workbench
from bertscope.questions.representations.comparison import RepresentationComparison, comparison_document, read_comparison
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_geometry_pb2 as geometry_pb2

from tests.support.broken_replies import refusals

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


def test_cka_of_the_sums_of_several_replies(stored) -> None:
    """Sums, not a share of a whole: an estimate of few texts may be above 1."""
    whole = RepresentationComparison.merge([read_comparison(reply(), REQUEST), read_comparison(reply(3), REQUEST)])
    unlike = reply(layers=[0, 3]), reply(other_provenance=source("models/two", "2"))
    same = {"other_provenance": source("models/one")}
    alone = read_comparison(reply(**same), REQUEST)
    stored(
        comparison=whole,
        cka=whole.cka(),
        columns=whole.columns(),
        document=comparison_document(whole),
        models=[alone.models, read_comparison(reply(**same), CHANGED).models, read_comparison(reply(), CHANGED).models],
        figure=workbench.plot_representations(alone),
        dark=workbench.plot_representations(whole, dark=True),
        refused=[
            *(lambda other=other: RepresentationComparison.merge([whole, read_comparison(other, REQUEST)]) for other in unlike),
            lambda: RepresentationComparison.merge([whole, read_comparison(reply(), CHANGED)]),
        ],
        broken=refusals(lambda messages: read_comparison(*messages, REQUEST), reply()),
    )
