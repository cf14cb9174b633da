"""Measures a search for contexts through gRPC, of all heads, all neurons and one direction, against a bare forward pass by
transformers over the same texts in-process; and a small cloze call beside a running search.

`python -m benchmarks find --texts FILE`, the sentences of a treebank (.conllu) or of a file with one on each line; without a
file, texts of random words.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import bertscope
import numpy as np
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.size_limits import size_limits
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from benchmarks.lib.measure import Claim, in_turn, machine, per_second, print_table, seconds
from benchmarks.lib.serving import Running, serving
from benchmarks.serving.scores import read_sentences

RUNTIMES = ("torch", "onnx")
LAYER = 3
CALLS = 60
SMALL = "Paris is the capital of [MASK]."
CLOSE = {"fp32": 1e-3, "bf16": 0.3}
"""How far values of a direction of length 20 may be from those of the passes, by the format that both compute in."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def claims(texts: list[str], rounds: int, runtimes: Sequence[str]) -> Iterator[Claim]:
    """Compares a search by each runtime with the bare passes, then measures small calls alone and beside a search."""
    for runtime in runtimes:
        with serving("--runtime", runtime) as server, bertscope.Client(server.target) as client:
            model = client.get_model()
            bare = Bare(texts, torch.device(model.device), DTYPES[model.precision])
            search = Search(client, texts)
            search.check(bare)
            pair = in_turn(search.run, bare.run, rounds)
            what = f"{search.what}, {runtime} / a bare forward pass by transformers, batches of {bare.tokens} tokens"
            yield pair.claim(what, "at least 0.85", per_second(len(texts), "texts"))
            taken, passes = median(pair.ours), median(pair.theirs)
            yield Claim(f"seconds of one search, {runtime}", f"{taken:.1f} s", f"{passes:.1f} s", taken, _spread(pair.ours), "")
            yield from _beside(server, client, texts, rounds, runtime)


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


class Search:
    """Finds the contexts of all heads, all neurons and one direction in some texts, in one call after another."""

    def __init__(self, client: bertscope.Client, texts: list[str]) -> None:
        self._client, self._texts = client, texts
        vector = np.random.default_rng(38).normal(size=client.get_model().hidden_size)
        self._direction = bertscope.SiteDirection("one", LAYER, vector)

    @property
    def what(self) -> str:
        """Says what is searched for."""
        return f"find_contexts, all heads, neurons and one direction, {len(self._texts)} texts"

    def run(self) -> bertscope.Contexts:
        """Searches."""
        return self._client.find_contexts(self._texts, heads="all", neurons="all", directions=self._direction)

    def check(self, bare: Bare) -> None:
        """Raises AssertionError if the direction has other values at the pieces of a text than in the states of the passes."""
        text = max(self._texts[:10], key=len)
        found = self._client.find_contexts(text, directions=self._direction, pieces=True, sample=1000)["one"]
        wanted = bare.states(text, LAYER)[1:-1] @ np.asarray(self._direction.vector)
        close = CLOSE[self._client.get_model().precision]
        np.testing.assert_allclose(sorted(place.value for place in found.sample), np.sort(wanted), rtol=close, atol=close)


class Bare:
    """The forward passes of transformers over some texts, sorted by length, in batches of as many tokens as ours; tokenising
    included."""

    def __init__(self, texts: list[str], device: torch.device, dtype: torch.dtype) -> None:
        self._texts, self._device, self.tokens = texts, device, size_limits(device).batch_tokens
        self._tokenizer = AutoTokenizer.from_pretrained(EMBEDDED_FOLDER)
        model = AutoModel.from_pretrained(EMBEDDED_FOLDER, dtype=dtype, add_pooling_layer=False)
        self._model = model.to(device).eval()

    @torch.inference_mode()
    def run(self) -> None:
        """Runs all texts."""
        rows = sorted(self._tokenizer(self._texts)["input_ids"], key=len)
        while rows:
            count = max(1, self.tokens // len(rows[-1]))
            states = self._model(**self._tokenizer.pad({"input_ids": rows[-count:]}, return_tensors="pt").to(self._device))
            del rows[-count:]
        states.last_hidden_state[0, 0].cpu()  # A GPU has ended with it.

    @torch.inference_mode()
    def states(self, text: str, layer: int) -> NDArray[np.float32]:
        """Returns the states of a text after some layers, [tokens, size]."""
        outputs = self._model(**self._tokenizer(text, return_tensors="pt").to(self._device), output_hidden_states=True)
        found: NDArray[np.float32] = outputs.hidden_states[layer][0].float().cpu().numpy()
        return found


def _beside(server: Running, client: bertscope.Client, texts: list[str], rounds: int, runtime: str) -> Iterator[Claim]:
    """Measures a small call alone, and beside a search on another connection, in turn."""
    alone, beside = list[list[float]](), list[list[float]]()
    _latencies(client)
    for _ in range(rounds):
        alone.append(_latencies(client))
        with _Searching(server, texts):
            beside.append(_latencies(client))
    for name, share in (("median", 50), ("p95", 95)):
        quiet, busy = ([float(np.percentile(taken, share)) for taken in side] for side in (alone, beside))
        ratios = [loaded / idle for loaded, idle in zip(busy, quiet, strict=True)]
        ours, theirs = (f"{1000 * median(side):.1f} ms" for side in (busy, quiet))
        yield Claim(
            f"{name} of a small cloze call beside a search / alone, {runtime}",
            ours,
            theirs,
            median(ratios),
            _spread(ratios),
            "",
        )


def _latencies(client: bertscope.Client) -> list[float]:
    return [seconds(lambda: client.fill_mask(SMALL)) for _ in range(CALLS)]


class _Searching:
    """A search that runs again and again, from another connection, while this is entered."""

    def __init__(self, server: Running, texts: list[str]) -> None:
        self._server, self._texts = server, texts
        self._running, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._search)

    def __enter__(self) -> None:
        self._thread.start()
        self._running.wait()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _search(self) -> None:
        with bertscope.Client(self._server.target) as client:
            while not self._stop.is_set():
                client.find_contexts(self._texts, heads="all", neurons="all", on_progress=lambda _: self._running.set())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks find", description=__doc__)
    parser.add_argument("--texts", type=Path, help="a treebank (.conllu), or a file with a sentence on each line")
    parser.add_argument("--count", type=int, default=2000, help="texts (2,000)")
    parser.add_argument("--runtime", choices=RUNTIMES, action="append", help="one runtime alone (both)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison, at least 5 for a figure to quote (5)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    found = []
    for claim in claims(read_sentences(options.texts, options.count), options.rounds, options.runtime or RUNTIMES):
        found.append(claim)
        print(f"{claim.what}: {claim.ours}, {claim.theirs}: {claim.ratio:.2f}", file=sys.stderr)
    if options.json:
        print(json.dumps({"machine": machine(), "claims": [dataclasses.asdict(claim) for claim in found]}, indent=2))
    else:
        print_table(found, options.rounds)
    return 0
