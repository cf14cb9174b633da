"""Measures activation patching through gRPC, in turn with the same by hooks on transformers' module and by pyvene in this
process, of the same weights, pair of texts and threads: the grid of all layers and positions, and all edges. Values are
compared first.

Hooks run in two ways: as models come, with all positions decoded over the whole vocabulary, and as an expert writes it, with
the head applied at the mask alone.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial

import bertscope
import numpy as np
import torch

from benchmarks.lib.measure import Claim, Pair, all_in_turn
from benchmarks.lib.serving import serving
from benchmarks.peers.environments import UnavailableError
from benchmarks.serving.sites_peers import Edge, Floats, Hooked, by_pyvene

CLEAN = "The keys to the old cabinet [MASK] on the small table in there."
CORRUPTED = "The key to the old cabinet [MASK] on the small table in there."
ANSWERS = "are", "is"
TOLERANCE = 1e-4
"""Logits of two libraries differ by a few 1e-6."""
SAMPLE = 40
"""Edges that the two passes run; the time of all is worked out from them."""
PATIENCE_SECONDS = 1800.0


def claims(rounds: int) -> Iterator[Claim]:
    """Yields comparisons of the grid by both libraries, with pyvene by PyTorch alone, and of all edges by PyTorch."""
    peer = Hooked(CLEAN, CORRUPTED, ANSWERS)
    sides: dict[str, tuple[Callable[[], Floats], str]] = {
        "hooks, one at a time": (partial(peer.singly, peer.everywhere), "at least 5"),
        "hooks, a batch for each layer": (partial(peer.batched, peer.everywhere), "at least 1.7"),
        "hooks, a batch for each layer, head at the mask": (partial(peer.batched, peer.at_mask), ""),
    }
    for runtime in ("onnx", "torch"):
        if runtime == "torch":
            try:
                sides["pyvene 0.1.8"] = by_pyvene(peer), "at least 10"
            except UnavailableError as error:
                print(f"pyvene: {error}", file=sys.stderr)
        flags = ("--runtime", runtime, "--threads", str(torch.get_num_threads()))
        with serving(*flags) as server, bertscope.Client(server.target, timeout=PATIENCE_SECONDS) as client:
            ours = partial(_grid, client)
            wanted = ours()
            for name, (side, _) in sides.items():
                _compare(name, side(), wanted)
            pairs = all_in_turn(ours, [side for side, _ in sides.values()], rounds)
            what = f"{wanted.shape[0]} layers x {wanted.shape[1]} positions, {runtime}"
            for (name, (_, goal)), pair in zip(sides.items(), pairs, strict=True):
                yield pair.claim(f"{what} / {name}", goal, _milliseconds)
            if runtime == "torch":
                yield from _edges(client, peer, rounds)


def _grid(client: bertscope.Client) -> Floats:
    """Returns the score of the corrupted text with one state of the clean one, [layers, positions]."""
    found = client.trace(CLEAN, CORRUPTED, bertscope.Answer(*ANSWERS))
    return found.difference + found.baseline.corrupted


def _edges(client: bertscope.Client, peer: Hooked, rounds: int) -> Iterator[Claim]:
    sample = random.Random(5).sample(peer.edges, SAMPLE)
    found = _along_all(client)
    if set(found) != set(peer.edges):
        raise RuntimeError(f"{len(found)} edges were measured, not the {len(peer.edges)} of the model")
    sides: dict[str, Callable[[], Floats]] = {
        "two-pass hooks": partial(peer.along, sample, peer.everywhere),
        "two-pass hooks, head at the mask": partial(peer.along, sample, peer.at_mask),
    }
    for name, side in sides.items():
        _compare(name, side(), np.array([found[edge] for edge in sample]))
    pairs = all_in_turn(partial(_along_all, client), list(sides.values()), rounds)
    for name, pair in zip(sides, pairs, strict=True):
        whole = Pair(pair.ours, [taken * len(found) / SAMPLE for taken in pair.theirs])
        goal = "" if "mask" in name else "at least 10"
        yield whole.claim(f"all {len(found):,} edges, torch / {name}, from {SAMPLE} of them", goal, _milliseconds)


def _along_all(client: bertscope.Client) -> dict[Edge, float]:
    """Returns the score of the corrupted text with each edge of the clean one."""
    found = client.trace(CLEAN, CORRUPTED, bertscope.Answer(*ANSWERS), paths=True)
    values = {}
    for effect in found.effects:
        end = effect.receiver
        if end is None:
            raise RuntimeError("an effect has no receiver")
        values[Edge(effect.layer, effect.unit, end.part, end.layer, end.head)] = effect.sum + found.baseline.corrupted
    return values


def _compare(name: str, found: Floats, wanted: Floats) -> None:
    """Raises RuntimeError for other values than ours."""
    worst = float(np.abs(found - wanted).max())
    print(f"{name}: largest difference {worst:.1e}", file=sys.stderr)
    if not worst <= TOLERANCE:
        raise RuntimeError(f"{name} gives other values, by {worst:.1e}")


def _milliseconds(taken: float) -> str:
    return f"{1000 * taken:,.0f} ms"
