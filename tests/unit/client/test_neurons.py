"""Attributions to neurons: the request, the reply read, changes made of it, its output, and replies that break the contract."""

from typing import Any

import bertscope
from bertscope.questions.attribution.inputs import Section
from bertscope.questions.attribution.neurons import read_neurons, with_site
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import common_pb2
from bertscope.v1.attribution_pb2 import AttributeWordsRequest
from bertscope.values.requests import request_of
from bertscope_workbench.command.views.attribution import neurons_document, print_neurons

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import printed

TARGET = bertscope.Answer("paris")
METHOD = attribution.ATTRIBUTION_METHOD_INTEGRATED_GRADIENTS
Unit = tuple[int, int, int, float]


def request(site: Any = "neurons", layers: Any = None, positions: Any = None, top: Any = None) -> Any:
    plain = dict.fromkeys(["model", "absent", "unit", "exact_units", "pairs", "steps", "max_steps", "tolerance"])
    usual: dict[str, Any] = plain | {"method": "integrated_gradients", "seed": 0, "first_pair": 0, "interactions": False}
    usual |= {"interventions": (), "reference_texts": (), "truncate": False}
    return with_site(request_of(AttributeWordsRequest, **usual), site, layers, positions, top)


def answer(*units: Unit, sums: tuple[float, ...] = (0.5, -0.1)) -> attribution.WordAttribution:
    sent = [attribution.UnitAttribution(layer=layer, position=at, unit=unit, value=value) for layer, at, unit, value in units]
    return attribution.WordAttribution(
        site_units=sent, layer_sums=sums, layer_values_absent=[0.1] * len(sums), value=0.6, completeness_error=0.004, tokens=7
    )


def found(*answers: attribution.WordAttribution, asked: Any = None, method: Any = METHOD) -> bertscope.NeuronAttributions:
    section = Section(0, "a text", TARGET, attribution.AttributedText(), None, last=True, work=1.0)
    response = attribution.AttributeWordsResponse(results=answers, method=method, provenance=common_pb2.Provenance())
    return bertscope.NeuronAttributions(read_neurons(asked or request(), [section] * len(answers), response))


def test_attributions_to_neurons(stored) -> None:
    one = answer((1, 3, 9, 0.4), (0, 3, 2, -0.2))
    several = found(
        answer((1, 3, 9, 0.4), (0, 3, 2, 0.3), (1, 3, 4, -0.9)),
        answer((0, 2, 2, 0.2), (0, 1, 2, 0.1), (1, 3, 4, -0.9), (2, 1, 7, 0.9)),
    )
    few = found(answer((1, 3, 9, 0.4), (0, 3, 2, 0.3), (1, 3, 4, 0.2), (1, 3, 5, -0.1)))
    (heads,) = found(answer(), asked=request("heads", [5, 2]))
    shapley = attribution.ATTRIBUTION_METHOD_SHAPLEY

    def read(messages):
        return found(*messages[0].results)

    stored(
        request=request("heads", [3, 1], "masks", 5),
        plain=request(),
        attribution=found(one)[0],
        heads=[heads.layers, heads.site],
        common=[several.common(1), several.common(), several.common(0.6), lambda: several.common(0)],
        changes=[few.changes(0.0), few[0].changes(2.0, top=1, positions="all")],
        printed=printed(print_neurons, found(one)[0]),
        document=neurons_document(found(one)[0]),
        broken=refusals(read, attribution.AttributeWordsResponse(results=[one])),
        another_method=lambda: found(one, method=shapley),
        another_site=lambda: request("state"),
    )
