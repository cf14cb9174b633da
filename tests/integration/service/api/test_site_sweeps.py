"""SweepSites through gRPC: each effect is that of a loop with plain hooks on transformers' own modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import ablation_sites_pb2 as sites
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import site_pb2, target_pb2
from numpy.typing import NDArray

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.hooked import ATTENTION, FEED_FORWARD, HEADS, NEURONS, PATHS, STATE, Change, Hooked, only
from tests.support.site_loop import Loop

Request, Scope, Pair = sites.SweepSitesRequest, sites.SiteScope, sites.PatchedPair
EACH, EACH_WORD, TOGETHER, GROUPS = range(1, 5)
RESTORE, BREAK = range(1, 3)
FLOAT32 = common.DATA_TYPE_FLOAT32
SITES = (STATE, HEADS, ATTENTION, NEURONS, FEED_FORWARD)
HEAD_COUNT, LAYERS = 4, {"distilbert": 3}
THE_OVER_CAT = target_pb2.Target(mask=target_pb2.MaskTarget(answer="the", other="cat"))
# Words of several pieces, and pairs of other lengths.
CLEAN = ("The cat [MASK] on the unplayable mat.", "Berlin is the [MASK] of Germany.")
CORRUPTED = ("The mat [MASK] on the unplayable cat.", "Germany is the [MASK] of Berlin.")
MASK = "[MASK]"
# Float32 against float64, through tiny models whose logits are of size 10.
CLOSE = 2e-4


def span(text: str, word: str) -> common.CharacterSpan:
    start = text.index(word)
    return common.CharacterSpan(start=start, end=start + len(word))


def spans(text: str, *words: str) -> site_pb2.CharacterSpans:
    return site_pb2.CharacterSpans(spans=[span(text, word) for word in words])


def pair(number: int = 0, **fields: Any) -> sites.PatchedPair:
    text = CLEAN[number]
    named = [{"subject": ["cat"], "end": ["unplayable mat", "."]}, {"end": ["Germany."], "verb": ["is"]}][number]
    groups = [sites.PositionGroup(name=name, spans=spans(text, *words)) for name, words in named.items()]
    if not {"corrupted", "noise", "masked", "plain"} & fields.keys():
        fields["corrupted"] = common.TextInput(text=CORRUPTED[number])
    fields.pop("plain", None)
    return Pair(clean=common.TextInput(text=text), target=THE_OVER_CAT, groups=groups, **fields)


@dataclass
class Found:
    """A whole stream, checked for its order."""

    start: sites.SiteSweepStart
    effects: dict[Any, NDArray[np.float64]]
    summary: sites.SiteSweepSummary


def sweep(host: Host, request: Request) -> Found:
    events = list(host.ablation.SweepSites(request, timeout=CALL_SECONDS))
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["start", *["effect"] * (len(kinds) - 2), "summary"]
    start, effects = events[0].start, [event.effect for event in events[1:-1]]
    assert start.total == len(effects)
    assert [effect.layer for effect in effects] == sorted(effect.layer for effect in effects)
    found = {key(effect): numbers(effect) for effect in effects}
    assert len(found) == len(effects)
    return Found(start, found, events[-1].summary)


def key(effect: sites.SiteEffect) -> tuple[int, int, int | None, int | str | None]:
    place = effect.position if effect.HasField("position") else effect.group or None
    return effect.site, effect.layer, effect.unit if effect.HasField("unit") else None, place


def numbers(effect: sites.SiteEffect) -> NDArray[np.float64]:
    values = (effect.count, effect.sum, effect.sum_of_squares, effect.ratios, effect.ratio_sum, effect.ratio_sum_of_squares)
    return np.array(values, dtype=np.float64)


def check(found: dict[Any, NDArray[np.float64]], wanted: dict[Any, NDArray[np.float64]], close: float = CLOSE) -> None:
    """The same effects, and one that is none of the others."""
    assert set(found) == set(wanted)
    for name, values in wanted.items():
        # A ratio is as exact as the difference that it is divided by.
        np.testing.assert_allclose(found[name], values, rtol=50 * close, atol=close, err_msg=str(name))
    assert max(abs(values[1]) for values in wanted.values()) > 1e-2


@pytest.fixture(scope="module")
def folders(checkpoint: Callable[[str], Path]) -> dict[str, Path]:
    return {name: checkpoint(name) for name in PATHS}


@pytest.fixture(scope="module")
def hooked(folders: dict[str, Path]) -> Callable[[str], Hooked]:
    return cache(lambda name: Hooked(name, folders[name], LAYERS.get(name, 4)))


@pytest.fixture(scope="module")
def zoo(loop: LoopThread, folders: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folder}" for name, folder in folders.items()]) as running:
        yield running


@pytest.fixture(scope="module")
def bert(loop: LoopThread, folders: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"bert={folders['bert']}"]) as running:
        yield running


DIRECTIONS = pytest.mark.parametrize("direction", [RESTORE, BREAK], ids=["restore", "break"])


@DIRECTIONS
@pytest.mark.parametrize("architecture", PATHS)
def test_every_site_of_every_layer(zoo: Host, hooked: Callable[[str], Hooked], architecture: str, direction: int) -> None:
    check_every_site(zoo, hooked(architecture), architecture, direction)


def check_every_site(host: Host, model: Hooked, architecture: str, direction: int) -> None:
    scopes = [Scope(site=site) for site in SITES if site != STATE] + [Scope(site=STATE, layers=range(model.layers + 1))]
    request = Request(model=f"models/{architecture}", pairs=[pair()], scopes=scopes, positions=EACH_WORD, direction=direction)
    found, loop = sweep(host, request), Loop(model, request)
    check(found.effects, loop.effects())
    clean, corrupted = (loop.run(run)[0] for run in loop.runs[0])
    assert found.start.pairs[0].clean == pytest.approx(clean, abs=CLOSE)
    assert found.start.pairs[0].corrupted == pytest.approx(corrupted, abs=CLOSE)


CORRUPTIONS: dict[str, dict[str, Any]] = {
    "text": {},
    "noise": {"noise": sites.EmbeddingNoise(spans=spans(CLEAN[0], "cat", "unplayable"), deviation=2.0, samples=2, seed=7)},
    "masked": {"masked": spans(CLEAN[0], "mat", "unplayable")},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("positions", "corruption", "direction"),
    [(EACH, "noise", RESTORE), (EACH_WORD, "text", BREAK), (TOGETHER, "masked", RESTORE), (GROUPS, "noise", BREAK)],
)
def test_every_scope_of_positions(
    bert: Host, hooked: Callable[[str], Hooked], positions: int, corruption: str, direction: int
) -> None:
    """With units of their own, chosen units together, and all."""
    scopes = [
        Scope(site=HEADS, layers=[2], each=Scope.UNITS_EACH),
        Scope(site=NEURONS, layers=[3, 1], units=[4, 5, 6]),
        Scope(site=NEURONS, layers=[0], units=[7, 3], each=Scope.UNITS_EACH),
        Scope(site=STATE, layers=[0, 1]),
    ]
    pairs = [pair(0, **CORRUPTIONS[corruption])]
    request = Request(pairs=pairs, scopes=scopes, positions=positions, direction=direction)
    found = sweep(bert, request)
    check(found.effects, Loop(hooked("bert"), request).effects())
    assert (found.start.positions, found.start.direction) == (positions, direction)


def vector(*numbers: float) -> common.Tensor:
    return common.Tensor(dtype=FLOAT32, shape=[len(numbers)], data=np.array(numbers, "<f4").tobytes())


def matrix(rows: NDArray[Any]) -> common.Tensor:
    return common.Tensor(dtype=FLOAT32, shape=rows.shape, data=rows.astype("<f4").tobytes())


DRAWN = np.random.default_rng(5).standard_normal((3, 32))
LEFT, RIGHT, MEAN = DRAWN[:2].T * 0.2, DRAWN[1:], DRAWN[0]
CHANGES: dict[str, tuple[sites.SiteScope, site_pb2.SiteChange, Change]] = {
    "scale": (Scope(site=NEURONS), site_pb2.SiteChange(scale=-2.0), lambda x: -2 * x),
    "set": (
        Scope(site=HEADS, units=[1]),
        site_pb2.SiteChange(set=vector(*DRAWN[0, :8])),
        lambda x: torch.from_numpy(DRAWN[0, :8]).expand_as(x),
    ),
    "add": (
        Scope(site=STATE, layers=[0, 2, 4]),
        site_pb2.SiteChange(add=site_pb2.Addition(vector=vector(*DRAWN[0]))),
        lambda x: x + torch.from_numpy(DRAWN[0]),
    ),
    "erase": (
        Scope(site=ATTENTION),
        site_pb2.SiteChange(erase=site_pb2.Projection(left=matrix(LEFT), right=matrix(RIGHT), mean=vector(*MEAN))),
        lambda x: x - (x - torch.from_numpy(MEAN)) @ torch.from_numpy(RIGHT.T) @ torch.from_numpy(LEFT.T),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_clean_run(bert: Host, hooked: Callable[[str], Hooked], name: str) -> None:
    scope, change, made = CHANGES[name]
    request = Request(pairs=[pair(0, plain=True), pair(1, plain=True)], scopes=[scope], change=change, positions=EACH_WORD)
    found = sweep(bert, request)
    check(found.effects, Loop(hooked("bert"), request).effects(made))
    assert found.start.pairs[0].corrupted == found.start.pairs[0].clean
    assert all(values[3:].tolist() == [0, 0, 0] for values in found.effects.values())
    assert found.start.direction == sites.PATCH_DIRECTION_UNSPECIFIED


REFERENCES = ("Nobody waited for the waiter.", "The old house.")


@pytest.mark.slow
@pytest.mark.parametrize("strong", [False, True], ids=["mean", "strength"])
def test_what_reference_texts_give(bert: Host, hooked: Callable[[str], Hooked], strong: bool) -> None:
    model, place = hooked("bert"), (FEED_FORWARD, 2)
    seen = torch.cat([model.run(model.read(text))[1][place] for text in REFERENCES])
    direction = torch.from_numpy(DRAWN[0])
    norm = float(seen.norm(dim=1).mean())
    added = direction / direction.norm() * norm * 0.5
    change = site_pb2.SiteChange(mean=site_pb2.MeanOfReference())
    if strong:
        change = site_pb2.SiteChange(add=site_pb2.Addition(vector=vector(*DRAWN[0]), strength=0.5))
    scopes = [Scope(site=FEED_FORWARD, layers=[2])]
    request = Request(pairs=[pair(0, plain=True)], scopes=scopes, change=change, reference_texts=REFERENCES)
    found = sweep(bert, request)
    mean = seen.mean(dim=0)
    check(found.effects, Loop(model, request).effects((lambda x: x + added) if strong else (lambda x: mean.expand_as(x))))
    assert list(found.summary.provenance.site_norms) == ([pytest.approx(norm, rel=1e-5)] if strong else [])


@pytest.mark.slow
def test_interventions_act_in_all_runs(bert: Host, hooked: Callable[[str], Hooked]) -> None:
    """Before what is measured, also at the same place, and in kept states."""
    zeroed = common.HeadIntervention(layer=1, heads=[2], mode=common.HeadIntervention.MODE_ZERO)
    changed = [
        site_pb2.SiteIntervention(site=STATE, layer=2, change=site_pb2.SiteChange(scale=0.5)),
        site_pb2.SiteIntervention(site=NEURONS, layer=0, units=[3], change=site_pb2.SiteChange(scale=-3.0)),
    ]
    everywhere = range(9)
    base = {
        (HEADS, 1): only(lambda x: 0 * x, everywhere, slice(16, 24)),
        (STATE, 2): lambda x: 0.5 * x,
        (NEURONS, 0): only(lambda x: -3 * x, everywhere, slice(3, 4)),
    }
    scopes = [Scope(site=site, layers=[0, 1, 2, 3]) for site in SITES]
    request = Request(
        pairs=[pair(0, **CORRUPTIONS["noise"])],
        scopes=scopes,
        positions=TOGETHER,
        interventions=[zeroed],
        site_interventions=changed,
    )
    plain = Loop(hooked("bert"), Request(pairs=[pair()]))
    everywhere = range(len(plain.offsets(CLEAN[0])))
    base[HEADS, 1] = only(lambda x: 0 * x, everywhere, slice(16, 24))
    base[NEURONS, 0] = only(lambda x: -3 * x, everywhere, slice(3, 4))
    check(sweep(bert, request).effects, Loop(hooked("bert"), request, base).effects())


@pytest.mark.slow
@pytest.mark.parametrize("positions", [EACH, GROUPS], ids=["each", "groups"])
def test_sums_of_divided_calls_add_up(bert: Host, hooked: Callable[[str], Hooked], positions: int) -> None:
    """However little memory there is: pairs that do not fit run after the others, with the same numbers."""
    pairs = [pair(0), pair(1), pair(0, **CORRUPTIONS["noise"]), pair(1, masked=spans(CLEAN[1], "of"))]
    scopes = [Scope(site=STATE, layers=[0, 3]), Scope(site=HEADS, layers=[1], each=Scope.UNITS_EACH)]
    request = Request(pairs=pairs, scopes=scopes, positions=positions)
    whole = sweep(bert, request)
    if positions == GROUPS:
        check(whole.effects, Loop(hooked("bert"), request).effects())
    parts = [sweep(bert, Request(pairs=some, scopes=scopes, positions=positions)) for some in (pairs[:1], pairs[1:])]
    added: dict[Any, NDArray[np.float64]] = {}
    for part in parts:
        for name, values in part.effects.items():
            added[name] = added.get(name, np.zeros(6)) + values
    check(added, whole.effects, 1e-4)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        sweep(bert, Request(pairs=pairs, scopes=scopes, positions=positions, memory_bytes=100))
    assert failures[0].info.reason == "MEMORY_TOO_SMALL"
    needed = int(failures[0].info.metadata["needed"])
    small = sweep(bert, Request(pairs=pairs, scopes=scopes, positions=positions, memory_bytes=needed))
    check(small.effects, whole.effects, 1e-4)
    assert small.summary.layer_passes == whole.summary.layer_passes < whole.summary.full_layer_passes
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        sweep(bert, Request(pairs=pairs, scopes=scopes, positions=positions, memory_bytes=needed - 1))


def test_pairs_that_hardly_differ_have_no_ratio(bert: Host) -> None:
    same = pair(0, corrupted=common.TextInput(text=CLEAN[0]))
    found = sweep(bert, Request(pairs=[same, pair(1)], scopes=[Scope(site=HEADS)], positions=TOGETHER))
    assert {(values[0], values[3]) for values in found.effects.values()} == {(2, 1)}


def test_a_label_that_the_model_chooses(lab: Host) -> None:
    """It is that of the clean text, in both runs."""
    clean, corrupted = common.TextInput(text="The cat sat."), common.TextInput(text="The dog sat.")
    chosen = Pair(clean=clean, corrupted=corrupted, target=target_pb2.Target(label=target_pb2.LabelTarget()))
    found = sweep(lab, Request(model="models/sorter", pairs=[chosen], scopes=[Scope(site=STATE)], positions=TOGETHER))
    label = found.start.pairs[0].label
    assert label
    named = Pair(clean=clean, corrupted=corrupted, target=target_pb2.Target(label=target_pb2.LabelTarget(label=label)))
    again = sweep(lab, Request(model="models/sorter", pairs=[named], scopes=[Scope(site=STATE)], positions=TOGETHER))
    assert found.start.pairs[0].clean == pytest.approx(again.start.pairs[0].clean, abs=1e-5)
    check(found.effects, again.effects, 1e-5)
    assert [token.text for token in found.start.pairs[0].tokens] != [
        token.text for token in found.start.pairs[0].corrupted_tokens
    ]
