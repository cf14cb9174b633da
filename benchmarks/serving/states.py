"""Measures ExtractHiddenStates through gRPC, all layers, in turn with transformers and `output_hidden_states=True` in-process,
with transformers' bare forward passes, and with the same passes in the server, of which only [CLS] is sent."""

from __future__ import annotations

import itertools
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.measure import Claim, all_in_turn, fastest, per_second
from benchmarks.lib.options import ROUNDS, RUNTIME, SENTENCES, option
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import plain, read_sentences, write_bert_base
from benchmarks.serving.scores import Work

OPTIONS = (
    ROUNDS,
    RUNTIME,
    SENTENCES,
    option("--count", "sentences", 1000),
    option("--base-count", "sentences for the bert-base; 0: none", 200),
    option("--dtype", "of what is sent", "float32", choices=("float32", "float16", "bfloat16")),
)
BATCHES = (4, 8, 16, 32, 64)
"""Texts in a batch of the in-process side, sorted by length; the fastest number counts."""
TRIED = 64
"""The texts on which batch sizes are tried."""
TOLERANCE = 2e-3
"""The largest difference of a state, whose numbers are around 1: the runtimes add up in another order."""


def claims(options: Namespace) -> Iterator[Claim]:
    """Yields the comparisons of both models."""
    texts = read_sentences(options.texts, options.count)
    threads = ("--threads", str(torch.get_num_threads()))
    with tempfile.TemporaryDirectory() as name:
        works = [Work("mini", EMBEDDED_FOLDER, texts)]
        if options.base_count:
            works.append(Work("base", write_bert_base(Path(name)), texts[: options.base_count]))
        models = itertools.chain.from_iterable(("--model", f"{work.name}={work.folder}") for work in works)
        with serving(*models, "--runtime", options.runtime, *threads) as server:
            for work in works:
                yield from _compare(server, work, options.rounds, options.dtype)


def _compare(server: Running, work: Work, rounds: int, dtype: Any) -> Iterator[Claim]:
    peer = InProcess(work)
    with bertscope.Client(server.target) as client:

        def ours() -> int:
            found = client.extract_hidden_states(work.texts, model=work.name, dtype=dtype)
            return sum(text.states.nbytes for text in found)

        def passes() -> int:
            found = client.extract_hidden_states(work.texts, model=work.name, layers=peer.layers, unit="text", pooling="first")
            return sum(1 for _ in found)

        if dtype == "float32":
            _check_equal(client, work, peer)
        ours()
        passes()
        peer.bare()
        pairs = all_in_turn(ours, [peer.states, peer.bare, passes], rounds)
    count = len(work.texts)
    what = f"ExtractHiddenStates, {work.name}, {count} sentences, all layers, {dtype} /"
    rate = per_second(count, "sentences")
    beside = f"{peer.batch} texts in a batch"
    yield pairs[0].claim(f"{what} transformers, output_hidden_states=True, {beside}", "at least 0.9x", rate)
    yield pairs[1].claim(f"{what} transformers, bare forward passes, {beside}", "at least 0.9x", rate)
    yield pairs[2].claim(f"{what} the same server's passes, [CLS] of the last layer sent", "at least 0.9x", rate)


def _check_equal(client: bertscope.Client, work: Work, peer: InProcess) -> None:
    texts = work.texts[:TRIED]
    theirs = peer.states(texts)
    for found in client.extract_hidden_states(texts, model=work.name):
        np.testing.assert_allclose(found.states, theirs[found.input_index], atol=TOLERANCE)


class InProcess:
    """Runs texts by transformers in this process, sorted by length, in batches of the fastest number of texts."""

    def __init__(self, work: Work) -> None:
        whole, self._tokenizer = plain(work.folder)
        self._model, self._texts = whole.base_model, work.texts
        self.layers = int(self._model.config.num_hidden_layers)
        """Layers of the model: the number of the last state."""
        self.batch = fastest(BATCHES, lambda size: self.states(work.texts[:TRIED], size))
        """Texts in a batch."""

    def states(self, texts: list[str] | None = None, batch: int = 0) -> dict[int, Any]:
        """Returns the states of texts, [layers + 1, tokens, hidden_size] each; of all, none is kept."""
        found = {}
        for places, mask, output in self._passes(texts or self._texts, batch or self.batch, output_hidden_states=True):
            hidden = torch.stack(output.hidden_states, dim=1).numpy()
            for row, place in enumerate(places):
                kept = np.ascontiguousarray(hidden[row, :, : int(mask[row].sum())])
                if texts is not None:
                    found[place] = kept
        return found

    def bare(self) -> None:
        """Runs all texts."""
        for _ in self._passes(self._texts, self.batch):
            pass

    @torch.inference_mode()
    def _passes(self, texts: list[str], size: int, **options: bool) -> Iterator[tuple[list[int], Any, Any]]:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for begin in range(0, len(order), size):
            places = order[begin : begin + size]
            batch = self._tokenizer([texts[place] for place in places], return_tensors="pt", padding=True)
            yield places, batch["attention_mask"], self._model(**batch, **options)
