"""Measures a search for contexts through gRPC, of all heads, all neurons and one direction, against a bare forward pass by
transformers over the same texts in-process; and a small cloze call beside a running search."""

from __future__ import annotations

import threading
from argparse import Namespace
from collections.abc import Iterator
from functools import partial

import bertscope
import numpy as np
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.size_limits import size_limits
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from benchmarks.lib.background import beside, small_calls
from benchmarks.lib.measure import Claim, in_turn, milliseconds, per_second, share
from benchmarks.lib.options import ROUNDS, RUNTIME, SENTENCES, option
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import read_sentences

OPTIONS = (ROUNDS, RUNTIME, SENTENCES, option("--count", "texts", 2000))
LAYER = 3
CALLS = 60
CLOSE = {"fp32": 1e-3, "bf16": 0.3}
"""How far values of a direction of length 20 may be from those of the passes, by the format that both compute in."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def claims(options: Namespace) -> Iterator[Claim]:
    """Compares a search with the bare passes, then measures small calls alone and beside a search."""
    texts, runtime = read_sentences(options.texts, options.count), options.runtime
    with serving("--runtime", runtime) as server, bertscope.Client(server.target) as client:
        model = client.get_model()
        bare = Bare(texts, torch.device(model.device), DTYPES[model.precision])
        direction = bertscope.SiteDirection("one", LAYER, np.random.default_rng(38).normal(size=model.hidden_size))
        _check(client, texts, direction, bare, CLOSE[model.precision])

        def search() -> bertscope.Contexts:
            return client.find_contexts(texts, heads="all", neurons="all", directions=direction)

        what = f"find_contexts, all heads, neurons and one direction, {len(texts)} texts, {runtime}"
        pair = in_turn(search, bare.run, options.rounds)
        theirs = f"a bare forward pass by transformers, batches of {bare.tokens} tokens"
        yield pair.claim(f"{what} / {theirs}", "at least 0.85", per_second(len(texts), "texts"))
        yield from _beside(server, client, texts, options.rounds)


def _check(client: bertscope.Client, texts: list[str], direction: bertscope.SiteDirection, bare: Bare, close: float) -> None:
    """Raises AssertionError if the direction has other values at the pieces of a text than in the states of the passes."""
    text = max(texts[:10], key=len)
    found = client.find_contexts(text, directions=direction, pieces=True, sample=1000)["one"]
    wanted = bare.states(text, LAYER)[1:-1] @ np.asarray(direction.vector)
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


def _beside(server: Running, client: bertscope.Client, texts: list[str], rounds: int) -> Iterator[Claim]:
    """Measures a small call alone, and beside a search on another connection, in turn."""
    alone, busy = list[list[float]](), list[list[float]]()
    small_calls(client, CALLS)
    for _ in range(rounds):
        alone.append(small_calls(client, CALLS))
        with beside(partial(_search, server, texts)):
            busy.append(small_calls(client, CALLS))
    for name, place in (("median", 50), ("p95", 95)):
        ours, theirs = ([float(np.percentile(taken, place)) for taken in side] for side in (busy, alone))
        yield share(f"{name} of a small cloze call beside a search / alone", ours, theirs, milliseconds)


def _search(server: Running, texts: list[str], begun: threading.Event, over: threading.Event) -> None:
    """Searches again and again, from another connection."""
    with bertscope.Client(server.target) as client:
        while not over.is_set():
            client.find_contexts(texts, heads="all", neurons="all", on_progress=lambda _: begun.set())
