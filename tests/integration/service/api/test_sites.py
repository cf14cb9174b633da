"""Changes at sites through gRPC, from every kind of vector; of sites and heads in every question; and what units of sites
contribute: AttributeWords with `site`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2, site_pb2
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import representation_states_pb2 as states
from bertscope.v1 import site_pb2 as sites
from bertscope.values.vectors import tensor
from google.protobuf.message import Message
from numpy.typing import NDArray

from tests.support import probes
from tests.support.calls import RPCS, call, refusal
from tests.support.harness import CALL_SECONDS, Host, refused
from tests.support.hooked import Hooked
from tests.support.reference import Subject
from tools.protos.samples import good

TEXT, OTHER = "The [MASK] sat on the mat.", "A [MASK] ran in the house."
CANDIDATES = ["cat", "dog", "mat"]
SIZE = 32
STATE = sites.SITE_STATE
Change = dict[str, Any]


def at(site: int, layer: int, change: Change, **fields: Any) -> Change:
    return {"site": site, "layer": layer, "change": change} | fields


def tokens(*numbers: int) -> Change:
    return {"tokens": {"tokens": numbers}}


MASKS: Change = {"kind": sites.Positions.KIND_MASKS}


def fill(host: Host, *changes: Change) -> NDArray[np.float64]:
    """Log probabilities of the candidates."""
    reply = call(host, "FillMask", texts=[TEXT], candidates=CANDIDATES, site_interventions=changes)
    return logs(reply)


def logs(reply: cloze.FillMaskResponse) -> NDArray[np.float64]:
    found = {one.token: one.log_probability for one in reply.results[0].masks[0].predictions}
    return np.array([found[word] for word in CANDIDATES])


def extract(host: Host, text: str, layer: int, **fields: Any) -> Any:
    asked = {"inputs": [{"text": text}], "layers": [layer], "dtype": common.DATA_TYPE_FLOAT32}
    return call(host, "ExtractHiddenStates", **asked, **fields)


def read_states(replies: Iterable[states.ExtractHiddenStatesResponse]) -> NDArray[np.float32]:
    data = b"".join(one.chunk.data for one in replies if one.HasField("chunk"))
    return np.frombuffer(data, dtype="<f4").reshape(-1, SIZE)


def test_a_change_is_that_of_a_hook(host: Host, checkpoints: dict[str, Path]) -> None:
    """At the mask, by its kind, its number, and its characters; beside another text whose mask is elsewhere."""
    subject = Subject("bert", checkpoints["bert"])
    sequence = subject.tokenizer.encode(TEXT).sequence
    place = list(sequence.ids).index(subject.tokenizer.mask_id)
    ids = [subject.tokenizer.backend.token_to_id(word) for word in CANDIDATES]
    vector = np.linspace(-1, 1, SIZE)

    def edit(vectors: torch.Tensor) -> torch.Tensor:
        after = vectors.clone()
        after[place] += torch.tensor(vector, dtype=torch.float32)
        return after

    scores, _ = Hooked(subject.reference).run(subject.reference.inputs([sequence]), {(STATE, 1): edit})
    expected = scores[place].log_softmax(-1)[ids].numpy()
    span = {"start": TEXT.index("[MASK]"), "end": TEXT.index("[MASK]") + 6}
    for positions in (MASKS, tokens(place), {"spans": {"spans": [span]}}):
        found = fill(host, at(STATE, 1, {"add": {"vector": tensor(vector)}}, positions=positions))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert np.abs(fill(host) - expected).max() > 1e-2


def test_lower_layers_of_another_model(host: Host) -> None:
    """A model's own lower layers change nothing; a state of another is that of a run of the other."""
    own = {"source": {"input": {"text": TEXT}, "model": "models/bert"}}
    np.testing.assert_allclose(fill(host, at(STATE, 2, own)), fill(host), rtol=0, atol=1e-5)
    text = OTHER.replace("[MASK]", "<mask>")
    theirs = read_states(extract(host, text, 1, model="models/roberta"))
    source = {"input": {"text": text}, "model": "models/roberta", "positions": tokens(1, 2), "layer": 1}
    changes = [at(STATE, 2, {"source": source}, positions=tokens(3, 5))]
    found = read_states(extract(host, TEXT, 2, site_interventions=changes))
    np.testing.assert_allclose(found[[3, 5]], theirs[[1, 2]], rtol=0, atol=1e-5)


def test_a_source_has_changes_of_its_own(host: Host) -> None:
    halved = at(STATE, 1, {"scale": 0.5})
    found = fill(host, at(STATE, 2, {"source": {"input": {"text": TEXT}, "interventions": [halved]}}))
    np.testing.assert_allclose(found, fill(host, halved), rtol=0, atol=1e-5)


def test_means_and_strengths_are_those_of_reference_texts(host: Host) -> None:
    references = ["The cat sat.", "A dog ran in the house."]
    vectors = np.concatenate([read_states(extract(host, text, 2)) for text in references]).astype(np.float64)
    added = {"vector": tensor(np.eye(SIZE)[0] * 7), "strength": -0.5}
    changes = [at(STATE, 2, {"mean": {}}, positions=tokens(1)), at(STATE, 2, {"add": added}, positions=tokens(3))]
    replies = extract(host, TEXT, 2, reference_texts=references, site_interventions=changes)
    norm = np.linalg.norm(vectors, axis=1).mean()
    expected = read_states(extract(host, TEXT, 2)).astype(np.float64)
    expected[1] = vectors.mean(axis=0)
    expected[3, 0] -= 0.5 * norm
    np.testing.assert_allclose(read_states(replies), expected, rtol=0, atol=1e-4)
    (told,) = next(one.header.provenance.site_norms for one in replies if one.HasField("header"))
    assert told == pytest.approx(norm, rel=1e-5)
    assert list(call(host, "FillMask", texts=[TEXT]).provenance.site_norms) == []
    asked = probes.request(layers=[2], max_epochs=1, reference_texts=references, site_interventions=changes[1:])
    (report,) = (one.report for one in host.representation.TrainProbe(asked) if one.HasField("report"))
    assert list(report.provenance.site_norms) == [told]


def test_attention_that_is_blocked_is_not_shown(host: Host) -> None:
    blocked = at(sites.SITE_ATTENTION, 1, {"block": tokens(0, 2)}, units=[1], positions=MASKS)
    asked = {"inputs": [{"text": TEXT}], "layers": [1], "dtype": common.DATA_TYPE_FLOAT32}
    replies = call(host, "ExtractAttention", **asked, site_interventions=[blocked])
    count = len(next(one.header.tokens for one in replies if one.HasField("header")))
    maps = np.frombuffer(b"".join(one.chunk.data for one in replies if one.HasField("chunk")), dtype="<f4")
    maps = maps.reshape(-1, count, count)
    assert maps[1, 2, [0, 2]].tolist() == [0, 0]
    np.testing.assert_allclose(maps.sum(axis=2), 1, atol=1e-5)
    assert (maps[0, 2] > 0).all()


CHANGES: dict[str, Change] = {
    "site_interventions": at(STATE, 1, {"scale": 0.5}, positions=tokens(1, 2)),
    "interventions": {"layer": 0, "heads": [1], "mode": "MODE_SCALE", "scale": 3.0},
}
ASKED = [
    (name, field)
    for field in CHANGES
    for name, method in RPCS.items()
    if field in method.request.DESCRIPTOR.fields_by_name and name not in ("SweepSites", "TrainEraser")
]


def without_times(data: bytes, kind: type[Message]) -> str:
    """The reply as text, without the fields that tell times."""
    lines = str(kind.FromString(data)).split("\n")
    return "\n".join(line for line in lines if "seconds" not in line)


@pytest.mark.parametrize(("name", "field"), ASKED)
def test_every_question_has_the_changes(lab: Host, checkpoints: dict[str, Path], name: str, field: str) -> None:
    """A change in a request changes the answer; those of sites are refused by what takes a model apart."""
    method, request = RPCS[name], good(checkpoints["bert"])[name]
    if name == "ApplyProbe":  # one that does not give all states the same
        request.probes[0].weights.CopyFrom(tensor(np.arange(2 * SIZE).reshape(SIZE, 2)))  # type: ignore[attr-defined]
        request.probes[0].layer = 1  # type: ignore[attr-defined]
    plain = lab.ask(method, request.SerializeToString())
    getattr(request, field).add(**CHANGES[field])
    if (name, field) == ("AttributeLogits", "site_interventions"):
        with refused(grpc.StatusCode.UNIMPLEMENTED):
            lab.ask(method, request.SerializeToString())
        return
    changed = lab.ask(method, request.SerializeToString())
    assert [without_times(one, method.response) for one in plain] != [without_times(one, method.response) for one in changed]


@pytest.mark.slow
def test_a_text_with_a_bad_position_fails_alone(host: Host) -> None:
    """Rows of other calls that wait with it are answered."""
    request = cloze.FillMaskRequest(texts=[TEXT], candidates=CANDIDATES)
    waiting = [host.cloze.FillMask.future(request, timeout=CALL_SECONDS) for _ in range(20)]
    change = at(STATE, 0, {"add": {"vector": tensor(np.ones(SIZE))}}, positions=tokens(40))
    refusal(host, "FillMask", texts=[TEXT], site_interventions=[change])
    np.testing.assert_allclose([logs(one.result()) for one in waiting], [fill(host)] * 20, rtol=0, atol=1e-6)


def scaled(layer: int, spans: Iterable[tuple[int, int]], scale: float) -> Change:
    """A state multiplied at the tokens that begin in some parts of the text."""
    where = {"spans": {"spans": [{"start": start, "end": end} for start, end in spans]}}
    return at(STATE, layer, {"scale": scale}, positions=where)


def test_many_changes_at_many_spans_are_what_they_are_together(host: Host) -> None:
    """In many texts, some with another number of tokens before the place; and no callback holds the loop meanwhile."""
    texts, factor = [TEXT, "Well, the [MASK] sat on the mat."] * 24, 0.999
    many = [scaled(1, [(0, 3), (4 + number % 3, 10), (10, 40)], factor) for number in range(300)]
    few = [scaled(1, [(0, 3)], factor**300), scaled(1, [(4, 5)], factor**100)]
    few += [scaled(1, [(5, 6)], factor**200), scaled(1, [(6, 40)], factor**300)]
    replies = [
        call(host, "FillMask", texts=texts, candidates=CANDIDATES, site_interventions=changes) for changes in (many, few)
    ]
    found, expected = (
        np.array([[one.log_probability for one in text.masks[0].predictions] for text in reply.results]) for reply in replies
    )
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert np.ptp(found[::2], axis=0).max() < 1e-5 < np.abs(found[0] - found[1]).max()


def test_changes_are_bounded(host: Host) -> None:
    spans = [(number, number + 1) for number in range(500)]
    several = [scaled(0, spans[number:], 1.0) for number in range(60)]
    failure = refusal(host, "FillMask", texts=[TEXT] * 256, candidates=CANDIDATES, site_interventions=several)
    assert (failure.info.reason, failure.fields) == ("TOO_MANY_CHANGES", ["site_interventions"])
    assert "send fewer texts" in failure.message
    assert call(host, "FillMask", texts=[TEXT], candidates=CANDIDATES, site_interventions=several).results
    source = {"source": {"input": {"text": TEXT}, "interventions": [at(STATE, 0, {"scale": 1.0})] * 100}}
    sources = [at(STATE, 1, source, positions=MASKS)] * 100
    failure = refusal(host, "FillMask", texts=[TEXT], candidates=CANDIDATES, site_interventions=sources)
    assert (failure.info.reason, failure.info.metadata["limit"]) == ("TOO_MANY_CHANGES", "10000")


NEURONS, HEADS = site_pb2.SITE_ACTIVATIONS, site_pb2.SITE_HEAD_OUTPUT
EXPLAINED = {"text": "the [MASK] sat on the mat", "target": {"mask": {"answer": "cat"}}}


def attribute(host: Host, site: int, *layers: int, top: int | None = None, positions: Any = None, **fields: Any) -> Any:
    asked = {"site": site, "layers": layers, "top": top, "positions": positions}
    return call(host, "AttributeWords", inputs=[EXPLAINED], site=asked, **fields)


@pytest.mark.slow
@pytest.mark.parametrize("site", [NEURONS, HEADS])
def test_the_largest_shares_and_the_sums_of_layers(host: Host, site: site_pb2.Site) -> None:
    response = attribute(host, site, 3, 1, top=10_000, tolerance=0.001)
    (found,) = response.results
    assert response.method == attribution.ATTRIBUTION_METHOD_INTEGRATED_GRADIENTS
    assert response.absent == attribution.ABSENT_TEXT_UNSPECIFIED
    assert response.provenance.runtime == common_pb2.RUNTIME_TORCH
    assert not found.units
    assert not found.values
    assert {one.position for one in found.site_units} == {2}  # the mask
    assert {one.layer for one in found.site_units} == {1, 3}
    absolute = [abs(one.value) for one in found.site_units]
    assert absolute == sorted(absolute, reverse=True)
    assert found.completeness_error <= 0.001
    for layer, total, absent in zip((1, 3), found.layer_sums, found.layer_values_absent, strict=True):
        assert total == pytest.approx(sum(one.value for one in found.site_units if one.layer == layer), rel=1e-9)
        assert total == pytest.approx(found.value - absent, abs=0.001 * max(abs(found.value - absent), sum(absolute)))
    assert found.steps in (10, 30, 90, 270, 810)
    (few,) = attribute(host, site, 1, 3).results
    assert len(few.site_units) == min(20, len(found.site_units))
    assert [one.unit for one in few.site_units[:3]] == [one.unit for one in found.site_units[:3]]


def test_all_units_at_zero_are_a_change_that_sets_the_number(host: Host) -> None:
    """layer_values_absent is what silencing the units gives."""
    positions = {"tokens": {"tokens": [1, 2]}}
    (found,) = attribute(host, NEURONS, 2, positions=positions).results
    silent = {"site": NEURONS, "layer": 2, "positions": positions, "change": {"scale": 0}}
    (other,) = attribute(host, NEURONS, 0, site_interventions=[silent]).results
    assert found.layer_values_absent[0] == pytest.approx(other.value, abs=1e-4)
    assert {one.position for one in found.site_units} <= {1, 2}


def test_one_gradient_is_enough_for_a_preview(host: Host) -> None:
    response = attribute(host, NEURONS, method=attribution.ATTRIBUTION_METHOD_GRADIENT)
    (found,) = response.results
    assert response.method == attribution.ATTRIBUTION_METHOD_GRADIENT
    assert found.steps == 0
    assert len(found.layer_sums) == 4
    assert found.evaluations == 1 + 4 * 2
    assert np.isfinite([one.value for one in found.site_units]).all()


@pytest.mark.parametrize("site", [NEURONS, HEADS])
def test_shares_are_of_the_model_with_its_changes(host: Host, site: site_pb2.Site) -> None:
    """Attention that is blocked, and a state that is changed, change the number and its shares."""
    blocked = {"site": site_pb2.SITE_ATTENTION, "layer": 2, "change": {"block": {"kind": site_pb2.Positions.KIND_FIRST}}}
    scaled = {"site": site_pb2.SITE_STATE, "layer": 1, "change": {"scale": 0.5}}
    (plain,) = attribute(host, site, 1, 3).results
    for change in (blocked, scaled):
        (found,) = attribute(host, site, 1, 3, site_interventions=[change], tolerance=0.001).results
        assert abs(found.value - plain.value) > 1e-4
        for total, absent in zip(found.layer_sums, found.layer_values_absent, strict=True):
            assert total == pytest.approx(found.value - absent, abs=0.02 * max(abs(found.value - absent), abs(total)))
