"""Attributions to neurons: the request, the reply read, changes made of it, its output, and replies that break the contract."""

import io
from typing import Any

import bertscope
import pytest
from bertscope.questions.attribution.inputs import Section
from bertscope.questions.attribution.neuron_replies import read_neurons, with_site
from bertscope.questions.attribution.requests import attribute_words_request
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import common_pb2, site_pb2
from bertscope_workbench.command.views.neurons import neurons_document, print_neurons
from rich.console import Console

TARGET = bertscope.Answer("paris")
METHOD = attribution.ATTRIBUTION_METHOD_INTEGRATED_GRADIENTS
Unit = tuple[int, int, int, float]


def request(site: Any = "neurons", layers: Any = None, positions: Any = None, top: Any = None) -> Any:
    plain = dict.fromkeys(["model", "absent", "unit", "exact_units", "pairs", "steps", "max_steps", "tolerance"])
    usual: dict[str, Any] = plain | {"method": "integrated_gradients", "seed": 0, "first_pair": 0, "interactions": False}
    usual |= {"interventions": (), "reference_texts": (), "truncate": False}
    return with_site(attribute_words_request(**usual), site, layers, positions, top)


def answer(*units: Unit, sums: tuple[float, ...] = (0.5, -0.1)) -> attribution.WordAttribution:
    sent = [attribution.UnitAttribution(layer=layer, position=at, unit=unit, value=value) for layer, at, unit, value in units]
    return attribution.WordAttribution(
        site_units=sent, layer_sums=sums, layer_values_absent=[0.1] * len(sums), value=0.6, completeness_error=0.004, tokens=7
    )


def found(*answers: attribution.WordAttribution, asked: Any = None, method: Any = METHOD) -> bertscope.NeuronAttributions:
    section = Section(0, "a text", TARGET, attribution.AttributedText(), None, last=True, work=1.0)
    response = attribution.AttributeWordsResponse(results=answers, method=method, provenance=common_pb2.Provenance())
    return bertscope.NeuronAttributions(read_neurons(asked or request(), [section] * len(answers), response))


def test_the_request_names_the_site() -> None:
    sent = request("heads", [3, 1], "masks", 5)
    assert (sent.site.site, list(sent.site.layers), sent.site.top) == (site_pb2.SITE_HEAD_OUTPUT, [3, 1], 5)
    assert sent.site.positions.kind == site_pb2.Positions.KIND_MASKS
    assert sent.method == METHOD
    assert not sent.absent
    assert not request().site.HasField("positions")
    with pytest.raises(bertscope.InvalidArgument, match="site"):
        request("state")


def test_a_reply_has_the_units_and_the_sums_of_layers() -> None:
    (one,) = found(answer((1, 3, 9, 0.4), (0, 3, 2, -0.2)))
    assert one.units[0] == bertscope.AttributedUnit(1, 3, 9, 0.4)
    assert (one.layers, one.layer_sums, one.layer_values_absent) == ((0, 1), (0.5, -0.1), (0.1, 0.1))
    assert (one.site, one.method, one.value, one.error) == ("neurons", "integrated_gradients", 0.6, 0.004)
    (other,) = found(answer(), asked=request("heads", [5, 2]))
    assert (other.layers, other.site) == ((2, 5), "heads")
    assert one.to_pandas().to_dict("list") == {
        "text": [0, 0], "layer": [1, 0], "position": [3, 3], "unit": [9, 2], "value": [0.4, -0.2]
    }  # fmt: skip


def test_units_that_texts_have_in_common_are_ordered_by_their_value() -> None:
    several = found(
        answer((1, 3, 9, 0.4), (0, 3, 2, 0.3), (1, 3, 4, -0.9)),
        answer((0, 2, 2, 0.2), (0, 1, 2, 0.1), (1, 3, 4, -0.9), (2, 1, 7, 0.9)),
    )
    assert several.common(1) == [(0, 2)]
    assert several.common() == [(2, 7), (0, 2), (1, 9)]
    assert several.common(0.6) == [(0, 2)]
    with pytest.raises(bertscope.InvalidArgument, match="share"):
        several.common(0)


def test_changes_scale_the_common_units_layer_by_layer() -> None:
    several = found(answer((1, 3, 9, 0.4), (0, 3, 2, 0.3), (1, 3, 4, 0.2), (1, 3, 5, -0.1)))
    first, second = several.changes(0.0)
    assert (first.site, first.layer, first.units, first.positions) == ("neurons", 0, (2,), "masks")
    assert (second.layer, second.units) == (1, (4, 9))
    assert second.change.message().scale == 0
    ((only,),) = [several[0].changes(2.0, top=1, positions="all")]
    assert (only.layer, only.units, only.positions, only.change.message().scale) == (1, (9,), "all", 2)


def test_the_output_has_units_and_sums() -> None:
    screen = Console(file=io.StringIO(), width=100)
    (one,) = found(answer((1, 3, 9, 0.4)))
    print_neurons(screen, one)
    printed = screen.file.getvalue()  # type: ignore[attr-defined]
    for expected in ("paris", "neuron", "+0.400", "all its neurons", "-0.100", "error 0.40 %"):
        assert expected in printed
    assert neurons_document(one)["units"] == [[1, 3, 9]]


@pytest.mark.parametrize(
    ("response", "method", "said"),
    [
        (answer(sums=()), METHOD, "sums of 0 layers"),
        (answer((0, 0, 0, float("nan"))), METHOD, "not finite"),
        (answer(), attribution.ATTRIBUTION_METHOD_SHAPLEY, "another method"),
    ],
)
def test_replies_that_break_the_contract(response: attribution.WordAttribution, method: Any, said: str) -> None:
    with pytest.raises(bertscope.InvalidReply, match=said):
        found(response, method=method)
