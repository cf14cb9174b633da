"""SweepSites through gRPC: each effect is that of a loop with plain hooks on transformers' own modules."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope.v1 import ablation_sites_pb2 as sites
from bertscope.values.vectors import tensor
from numpy.typing import NDArray

from tests.support.calls import call, refusal
from tests.support.harness import Host
from tests.support.hooked import ATTENTION, FEED_FORWARD, HEADS, NEURONS, PATHS, STATE, Change, Hooked, only
from tests.support.reference import Reference
from tests.support.site_loop import Loop

Request = sites.SweepSitesRequest
EACH, EACH_WORD, TOGETHER, GROUPS = range(1, 5)
RESTORE, BREAK = range(1, 3)
SITES = (STATE, HEADS, ATTENTION, NEURONS, FEED_FORWARD)
THE_OVER_CAT = {"mask": {"answer": "the", "other": "cat"}}
# Words of several pieces, and pairs of other lengths.
CLEAN = ("The cat [MASK] on the unplayable mat.", "Berlin is the [MASK] of Germany.")
CORRUPTED = ("The mat [MASK] on the unplayable cat.", "Germany is the [MASK] of Berlin.")
NAMED = ({"subject": ["cat"], "end": ["unplayable mat", "."]}, {"end": ["Germany."], "verb": ["is"]})
# Float32 against float64, through tiny models whose logits are of size 10.
CLOSE = 2e-4


def spans(text: str, *words: str) -> dict[str, Any]:
    return {"spans": [{"start": text.index(word), "end": text.index(word) + len(word)} for word in words]}


def pair(number: int = 0, **fields: Any) -> dict[str, Any]:
    """A pair of texts, unless it is corrupted otherwise."""
    text = CLEAN[number]
    groups = [{"name": name, "spans": spans(text, *words)} for name, words in NAMED[number].items()]
    corrupted = fields or {"corrupted": {"text": CORRUPTED[number]}}
    return {"clean": {"text": text}, "target": THE_OVER_CAT, "groups": groups} | corrupted


def plain_pair(number: int) -> dict[str, Any]:
    return {name: value for name, value in pair(number).items() if name != "corrupted"}


@dataclass
class Found:
    """A whole stream, checked for its order."""

    start: sites.SiteSweepStart
    effects: dict[Any, NDArray[np.float64]]
    summary: sites.SiteSweepSummary


def sweep(host: Host, **fields: Any) -> Found:
    events = call(host, "SweepSites", **fields)
    assert [event.WhichOneof("event") for event in events] == ["start", *["effect"] * (len(events) - 2), "summary"]
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
    return cache(lambda name: Hooked(Reference(folders[name], torch.float64)))


@pytest.mark.parametrize("direction", [RESTORE, BREAK], ids=["restore", "break"])
@pytest.mark.parametrize("architecture", PATHS)
def test_every_site_of_every_layer(zoo: Host, hooked: Callable[[str], Hooked], architecture: str, direction: int) -> None:
    model = hooked(architecture)
    scopes = [{"site": site} for site in SITES if site != STATE] + [{"site": STATE, "layers": range(model.layers + 1)}]
    asked: dict[str, Any] = {"pairs": [pair()], "scopes": scopes, "positions": EACH_WORD, "direction": direction}
    found, loop = sweep(zoo, model=f"models/{architecture}", **asked), Loop(model, Request(**asked))
    check(found.effects, loop.effects())
    clean, corrupted = (loop.run(run)[0] for run in loop.runs[0])
    assert found.start.pairs[0].clean == pytest.approx(clean, abs=CLOSE)
    assert found.start.pairs[0].corrupted == pytest.approx(corrupted, abs=CLOSE)


NOISE = {"noise": {"spans": spans(CLEAN[0], "cat", "unplayable"), "deviation": 2.0, "samples": 2, "seed": 7}}
SOME_MASKED = {"masked": spans(CLEAN[0], "mat", "unplayable")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("positions", "corruption", "direction"),
    [(EACH, NOISE, RESTORE), (EACH_WORD, {}, BREAK), (TOGETHER, SOME_MASKED, RESTORE), (GROUPS, NOISE, BREAK)],
)
def test_every_scope_of_positions(
    zoo: Host, hooked: Callable[[str], Hooked], positions: int, corruption: dict[str, Any], direction: int
) -> None:
    """With units of their own, chosen units together, and all."""
    scopes = [
        {"site": HEADS, "layers": [2], "each": "UNITS_EACH"},
        {"site": NEURONS, "layers": [3, 1], "units": [4, 5, 6]},
        {"site": NEURONS, "layers": [0], "units": [7, 3], "each": "UNITS_EACH"},
        {"site": STATE, "layers": [0, 1]},
    ]
    asked = {"pairs": [pair(0, **corruption)], "scopes": scopes, "positions": positions, "direction": direction}
    found = sweep(zoo, **asked)
    check(found.effects, Loop(hooked("bert"), Request(**asked)).effects())
    assert (found.start.positions, found.start.direction) == (positions, direction)


DRAWN = np.random.default_rng(5).standard_normal((3, 32))
LEFT, RIGHT, MEAN = DRAWN[:2].T * 0.2, DRAWN[1:], DRAWN[0]
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], Change]] = {
    "scale": ({"site": NEURONS}, {"scale": -2.0}, lambda x: -2 * x),
    "set": (
        {"site": HEADS, "units": [1]},
        {"set": tensor(DRAWN[0, :8])},
        lambda x: torch.from_numpy(DRAWN[0, :8]).expand_as(x),
    ),
    "add": (
        {"site": STATE, "layers": [0, 2, 4]},
        {"add": {"vector": tensor(DRAWN[0])}},
        lambda x: x + torch.from_numpy(DRAWN[0]),
    ),
    "erase": (
        {"site": ATTENTION},
        {"erase": {"left": tensor(LEFT), "right": tensor(RIGHT), "mean": tensor(MEAN)}},
        lambda x: x - (x - torch.from_numpy(MEAN)) @ torch.from_numpy(RIGHT.T) @ torch.from_numpy(LEFT.T),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_clean_run(zoo: Host, hooked: Callable[[str], Hooked], name: str) -> None:
    scope, change, made = CHANGES[name]
    asked = {"pairs": [plain_pair(0), plain_pair(1)], "scopes": [scope], "change": change, "positions": EACH_WORD}
    found = sweep(zoo, **asked)
    check(found.effects, Loop(hooked("bert"), Request(**asked)).effects(made))
    assert found.start.pairs[0].corrupted == found.start.pairs[0].clean
    assert all(values[3:].tolist() == [0, 0, 0] for values in found.effects.values())
    assert found.start.direction == sites.PATCH_DIRECTION_UNSPECIFIED


REFERENCES = ("Nobody waited for the waiter.", "The old house.")


@pytest.mark.slow
@pytest.mark.parametrize("strong", [False, True], ids=["mean", "strength"])
def test_what_reference_texts_give(zoo: Host, hooked: Callable[[str], Hooked], strong: bool) -> None:
    model = hooked("bert")
    seen = torch.cat([model.run(model.read(text))[1][FEED_FORWARD, 2] for text in REFERENCES])
    direction = torch.from_numpy(DRAWN[0])
    norm, mean = float(seen.norm(dim=1).mean()), seen.mean(dim=0)
    added = direction / direction.norm() * norm * 0.5
    change = {"add": {"vector": tensor(DRAWN[0]), "strength": 0.5}} if strong else {"mean": {}}
    asked: dict[str, Any] = {"pairs": [plain_pair(0)], "scopes": [{"site": FEED_FORWARD, "layers": [2]}], "change": change}
    found = sweep(zoo, **asked, reference_texts=REFERENCES)
    loop = Loop(model, Request(**asked))
    check(found.effects, loop.effects((lambda x: x + added) if strong else (lambda x: mean.expand_as(x))))
    assert list(found.summary.provenance.site_norms) == ([pytest.approx(norm, rel=1e-5)] if strong else [])


@pytest.mark.slow
def test_interventions_act_in_all_runs(zoo: Host, hooked: Callable[[str], Hooked]) -> None:
    """Before what is measured, also at the same place, and in kept states."""
    model = hooked("bert")
    scopes = [{"site": site, "layers": [0, 1, 2, 3]} for site in SITES]
    asked: dict[str, Any] = {"pairs": [pair(0, **NOISE)], "scopes": scopes, "positions": TOGETHER}
    changed = [
        {"site": STATE, "layer": 2, "change": {"scale": 0.5}},
        {"site": NEURONS, "layer": 0, "units": [3], "change": {"scale": -3.0}},
    ]
    zeroed = {"layer": 1, "heads": [2], "mode": "MODE_ZERO"}
    found = sweep(zoo, **asked, interventions=[zeroed], site_interventions=changed)
    everywhere = range(len(Loop(model, Request(**asked)).offsets(CLEAN[0])))
    base = {
        (HEADS, 1): only(lambda x: 0 * x, everywhere, slice(16, 24)),
        (STATE, 2): lambda x: 0.5 * x,
        (NEURONS, 0): only(lambda x: -3 * x, everywhere, slice(3, 4)),
    }
    check(found.effects, Loop(model, Request(**asked), base).effects())


@pytest.mark.slow
@pytest.mark.parametrize("positions", [EACH, GROUPS], ids=["each", "groups"])
def test_sums_of_divided_calls_add_up(zoo: Host, hooked: Callable[[str], Hooked], positions: int) -> None:
    """However little memory there is: pairs that do not fit run after the others, with the same numbers."""
    pairs = [pair(0), pair(1), pair(0, **NOISE), pair(1, masked=spans(CLEAN[1], "of"))]
    scopes = [{"site": STATE, "layers": [0, 3]}, {"site": HEADS, "layers": [1], "each": "UNITS_EACH"}]
    asked: dict[str, Any] = {"scopes": scopes, "positions": positions}
    whole = sweep(zoo, pairs=pairs, **asked)
    if positions == GROUPS:
        check(whole.effects, Loop(hooked("bert"), Request(pairs=pairs, **asked)).effects())
    added: dict[Any, NDArray[np.float64]] = {}
    for some in (pairs[:1], pairs[1:]):
        for name, values in sweep(zoo, pairs=some, **asked).effects.items():
            added[name] = added.get(name, np.zeros(6)) + values
    check(added, whole.effects, 1e-4)
    failure = refusal(zoo, "SweepSites", pairs=pairs, **asked, memory_bytes=100)
    assert failure.info.reason == "MEMORY_TOO_SMALL"
    needed = int(failure.info.metadata["needed"])
    small = sweep(zoo, pairs=pairs, **asked, memory_bytes=needed)
    check(small.effects, whole.effects, 1e-4)
    assert small.summary.layer_passes == whole.summary.layer_passes < whole.summary.full_layer_passes
    refusal(zoo, "SweepSites", pairs=pairs, **asked, memory_bytes=needed - 1)


def test_a_pair_needs_room_for_its_runs_states_and_for_the_vectors_that_are_put(zoo: Host) -> None:
    scopes, tokens = [{"site": HEADS, "layers": [0, 1]}, {"site": NEURONS, "layers": [0]}], 17
    state, vectors = (2 * tokens + 1) * 32, tokens * (32 + 48)  # those of layer 0, which has most
    for fields, runs, givers in (
        ({"pairs": [pair(0, **NOISE)], "direction": RESTORE}, 3, 1),
        ({"pairs": [pair(0, **NOISE)], "direction": BREAK}, 3, 2),
        ({"pairs": [plain_pair(0)], "change": {"scale": 2.0}}, 1, 0),
    ):
        failure = refusal(zoo, "SweepSites", **fields, scopes=scopes, memory_bytes=1)
        assert int(failure.info.metadata["needed"]) == 4 * (runs * state + givers * vectors)


def test_pairs_that_hardly_differ_have_no_ratio(zoo: Host) -> None:
    same = pair(0, corrupted={"text": CLEAN[0]})
    found = sweep(zoo, pairs=[same, pair(1)], scopes=[{"site": HEADS}], positions=TOGETHER)
    assert {(values[0], values[3]) for values in found.effects.values()} == {(2, 1)}


def test_small_probabilities_have_a_ratio(zoo: Host) -> None:
    """Pairs that hardly differ as logarithms are the same ones: a share doesn't depend on how small the probability is."""

    def of(scale: int) -> Found:
        target = {"mask": {"answer": "the"}, "scale": scale}
        pairs = [pair(0, corrupted={"text": CLEAN[0]}), *(pair(number) for number in range(2))]
        return sweep(zoo, pairs=[one | {"target": target} for one in pairs], scopes=[{"site": HEADS}], positions=TOGETHER)

    logarithms, probabilities = of(2), of(3)
    assert all(abs(values.clean - values.corrupted) < 0.05 for values in probabilities.start.pairs)
    assert all(abs(values.clean - values.corrupted) > 0.06 for values in logarithms.start.pairs[1:])
    for found in (logarithms, probabilities):
        assert {(values[0], values[3]) for values in found.effects.values()} == {(3, 2)}


def test_a_label_that_the_model_chooses(lab: Host) -> None:
    """It is that of the clean text, in both runs."""

    def of(label: str) -> Found:
        texts = {"clean": {"text": "The cat sat."}, "corrupted": {"text": "The dog sat."}}
        asked = {"pairs": [texts | {"target": {"label": {"label": label}}}], "scopes": [{"site": STATE}]}
        return sweep(lab, model="models/sorter", **asked, positions=TOGETHER)

    chosen = of("")
    found = chosen.start.pairs[0]
    assert found.label
    named = of(found.label)
    assert found.clean == pytest.approx(named.start.pairs[0].clean, abs=1e-5)
    check(chosen.effects, named.effects, 1e-5)
    assert [token.text for token in found.tokens] != [token.text for token in found.corrupted_tokens]
