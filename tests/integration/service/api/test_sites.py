"""Changes at sites through gRPC: in every question, from every kind of vector, refused by name where they can't be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import representation_states_pb2 as states
from bertscope.v1 import site_pb2 as sites
from bertscope_service.contract import METHODS
from google.protobuf.message import Message
from numpy.typing import NDArray

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.hooked import Hooked
from tests.support.reference import Subject
from tests.support.requests import good

Change, Intervention, Positions = sites.SiteChange, sites.SiteIntervention, sites.Positions
TEXT, OTHER = "The [MASK] sat on the mat.", "A [MASK] ran in the house."
CANDIDATES = ["cat", "dog", "mat"]
SIZE = 32


@pytest.fixture(scope="module")
def subject(checkpoints: dict[str, Path]) -> Subject:
    return Subject("bert", checkpoints["bert"])


def tensor(values: NDArray[Any]) -> common.Tensor:
    array = np.asarray(values, dtype="<f4")
    return common.Tensor(dtype=common.DATA_TYPE_FLOAT32, shape=array.shape, data=array.tobytes())


def at(site: int, layer: int, change: Change, **fields: Any) -> Intervention:
    return Intervention(site=site, layer=layer, change=change, **fields)


def tokens(*numbers: int) -> Positions:
    return Positions(tokens=sites.TokenIndexes(tokens=numbers))


def kind(number: int) -> Positions:
    return Positions(kind=number)


def fill(host: Host, text: str, *changes: Intervention, **fields: Any) -> cloze.FillMaskResponse:
    request = cloze.FillMaskRequest(texts=[text], candidates=CANDIDATES, site_interventions=changes, **fields)
    return host.cloze.FillMask(request, timeout=CALL_SECONDS)


def logs(reply: cloze.FillMaskResponse) -> NDArray[np.float64]:
    found = {one.token: one.log_probability for one in reply.results[0].masks[0].predictions}
    return np.array([found[word] for word in CANDIDATES])


def states_of(host: Host, text: str, layer: int, *changes: Intervention) -> NDArray[np.float32]:
    request = states.ExtractHiddenStatesRequest(
        inputs=[common.TextInput(text=text)], layers=[layer], site_interventions=changes, dtype=common.DATA_TYPE_FLOAT32
    )
    return read_states(host.representation.ExtractHiddenStates(request, timeout=CALL_SECONDS))


def read_states(replies: Iterable[states.ExtractHiddenStatesResponse]) -> NDArray[np.float32]:
    data = b"".join(one.chunk.data for one in replies if one.HasField("chunk"))
    return np.frombuffer(data, dtype="<f4").reshape(-1, SIZE)


def test_a_change_is_that_of_a_hook(host: Host, subject: Subject) -> None:
    """At the mask, by its kind, its number, and its characters; beside another text whose mask is elsewhere."""
    sequence = subject.tokenizer.encode(TEXT).sequence
    place = list(sequence.ids).index(subject.tokenizer.mask_id)
    ids = [subject.tokenizer.backend.token_to_id(word) for word in CANDIDATES]
    vector = np.linspace(-1, 1, SIZE)

    def edit(vectors: torch.Tensor) -> torch.Tensor:
        after = vectors.clone()
        after[place] += torch.tensor(vector, dtype=torch.float32)
        return after

    scores, _ = Hooked(subject.reference).run(subject.reference.inputs([sequence]), {(sites.SITE_STATE, 1): edit})
    expected = scores[place].log_softmax(-1)[ids].numpy()
    change = Change(add=sites.Addition(vector=tensor(vector)))
    start = TEXT.index("[MASK]")
    span = common.CharacterSpan(start=start, end=start + 6)
    for positions in (kind(Positions.KIND_MASKS), tokens(place), Positions(spans=sites.CharacterSpans(spans=[span]))):
        found = logs(fill(host, TEXT, at(sites.SITE_STATE, 1, change, positions=positions)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    plain = logs(fill(host, TEXT))
    assert np.abs(plain - expected).max() > 1e-2


def test_lower_layers_of_another_model(host: Host) -> None:
    """A model's own lower layers change nothing; a state of another is that of a run of the other."""
    own = sites.SiteSource(input=common.TextInput(text=TEXT), model="models/bert")
    plain = logs(fill(host, TEXT))
    np.testing.assert_allclose(logs(fill(host, TEXT, at(sites.SITE_STATE, 2, Change(source=own)))), plain, rtol=0, atol=1e-5)
    request = states.ExtractHiddenStatesRequest(
        model="models/roberta",
        inputs=[common.TextInput(text=OTHER.replace("[MASK]", "<mask>"))],
        layers=[1],
        dtype=common.DATA_TYPE_FLOAT32,
    )
    theirs = read_states(host.representation.ExtractHiddenStates(request, timeout=CALL_SECONDS))
    other = sites.SiteSource(input=request.inputs[0], model="models/roberta", positions=tokens(1, 2), layer=1)
    found = states_of(host, TEXT, 2, at(sites.SITE_STATE, 2, Change(source=other), positions=tokens(3, 5)))
    np.testing.assert_allclose(found[[3, 5]], theirs[[1, 2]], rtol=0, atol=1e-5)


def test_a_source_has_changes_of_its_own(host: Host) -> None:
    halved = at(sites.SITE_STATE, 1, Change(scale=0.5))
    source = sites.SiteSource(input=common.TextInput(text=TEXT), interventions=[halved])
    found = logs(fill(host, TEXT, at(sites.SITE_STATE, 2, Change(source=source))))
    np.testing.assert_allclose(found, logs(fill(host, TEXT, halved)), rtol=0, atol=1e-5)


def test_means_and_strengths_are_those_of_reference_texts(host: Host) -> None:
    references = ["The cat sat.", "A dog ran in the house."]
    vectors = np.concatenate([states_of(host, text, 2) for text in references]).astype(np.float64)
    found = states_of(host, TEXT, 2)
    request = states.ExtractHiddenStatesRequest(
        inputs=[common.TextInput(text=TEXT)],
        layers=[2],
        dtype=common.DATA_TYPE_FLOAT32,
        reference_texts=references,
        site_interventions=[
            at(sites.SITE_STATE, 2, Change(mean=sites.MeanOfReference()), positions=tokens(1)),
            at(
                sites.SITE_STATE,
                2,
                Change(add=sites.Addition(vector=tensor(np.eye(SIZE)[0] * 7), strength=-0.5)),
                positions=tokens(3),
            ),
        ],
    )
    replies = list(host.representation.ExtractHiddenStates(request, timeout=CALL_SECONDS))
    changed = read_states(replies)
    norm = np.linalg.norm(vectors, axis=1).mean()
    expected = found.astype(np.float64).copy()
    expected[1] = vectors.mean(axis=0)
    expected[3, 0] -= 0.5 * norm
    np.testing.assert_allclose(changed, expected, rtol=0, atol=1e-4)
    (told,) = next(one.header.provenance.site_norms for one in replies if one.HasField("header"))
    assert told == pytest.approx(norm, rel=1e-5)
    plain = host.cloze.FillMask(cloze.FillMaskRequest(texts=[TEXT]), timeout=CALL_SECONDS)
    assert list(plain.provenance.site_norms) == []


def test_attention_that_is_blocked_is_not_shown(host: Host) -> None:
    blocked = at(sites.SITE_ATTENTION, 1, Change(block=tokens(0, 2)), units=[1], positions=kind(Positions.KIND_MASKS))
    request = attention.ExtractAttentionRequest(
        inputs=[common.TextInput(text=TEXT)], layers=[1], site_interventions=[blocked], dtype=common.DATA_TYPE_FLOAT32
    )
    replies = list(host.attention.ExtractAttention(request, timeout=CALL_SECONDS))
    count = len(next(one.header.tokens for one in replies if one.HasField("header")))
    maps = np.frombuffer(b"".join(one.chunk.data for one in replies if one.HasField("chunk")), dtype="<f4")
    maps = maps.reshape(-1, count, count)
    assert maps[1, 2, [0, 2]].tolist() == [0, 0]
    np.testing.assert_allclose(maps.sum(axis=2), 1, atol=1e-5)
    assert (maps[0, 2] > 0).all()


TAKEN_APART = {"AttributeLogits"}
ASKED = sorted(method.name for method in METHODS.values() if "site_interventions" in method.request.DESCRIPTOR.fields_by_name)
HALVED = at(sites.SITE_STATE, 1, Change(scale=0.5), positions=tokens(1, 2))


@pytest.fixture(scope="module")
def servers(loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folder}" for name, folder in (checkpoints | sorters).items()]) as running:
        yield running


def without_times(data: bytes, kind: type[Message]) -> str:
    """The reply as text, without the fields that tell times."""
    lines = str(kind.FromString(data)).split("\n")
    return "\n".join(line for line in lines if "seconds" not in line)


@pytest.mark.parametrize("name", [name for name in ASKED if name not in ("SweepSites", "TrainEraser")])
def test_every_question_has_the_changes(servers: Host, checkpoints: dict[str, Path], name: str) -> None:
    """A change in a request changes the answer, or is refused by name."""
    method = next(method for method in METHODS.values() if method.name == name)
    request = good(checkpoints["bert"])[name]
    if name == "ApplyProbe":  # one that does not give all states the same
        request.probes[0].weights.CopyFrom(tensor(np.arange(2 * SIZE).reshape(SIZE, 2)))  # type: ignore[attr-defined]
        request.probes[0].layer = 1  # type: ignore[attr-defined]
    plain = servers.ask(method, request.SerializeToString())
    request.site_interventions.append(HALVED)  # type: ignore[attr-defined]
    if name in TAKEN_APART:
        with refused(grpc.StatusCode.UNIMPLEMENTED):
            servers.ask(method, request.SerializeToString())
        return
    changed = servers.ask(method, request.SerializeToString())
    assert [without_times(one, method.response) for one in plain] != [without_times(one, method.response) for one in changed]


VECTOR, STATE = tensor(np.ones(SIZE)), sites.SITE_STATE
ADD = Change(add=sites.Addition(vector=VECTOR))


@pytest.mark.slow
def test_a_text_with_a_bad_position_fails_alone(host: Host) -> None:
    """Rows of other calls that wait with it are answered."""
    request = cloze.FillMaskRequest(texts=[TEXT], candidates=CANDIDATES)
    waiting = [host.cloze.FillMask.future(request, timeout=CALL_SECONDS) for _ in range(20)]
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        fill(host, TEXT, at(STATE, 0, ADD, positions=tokens(40)))
    found = [logs(one.result()) for one in waiting]
    np.testing.assert_allclose(found, [logs(fill(host, TEXT))] * 20, rtol=0, atol=1e-6)
