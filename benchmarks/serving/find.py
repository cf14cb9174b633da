"""Measures a search for contexts through gRPC, of all heads, all neurons and one direction, in turn with a bare forward pass by
transformers over the same texts in-process."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

import bertscope
import numpy as np
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.measure import Claim, in_turn, per_second
from benchmarks.lib.options import ROUNDS, RUNTIME, SENTENCES, option
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import read_sentences
from benchmarks.serving.scores import Work
from benchmarks.serving.states import InProcess

OPTIONS = (ROUNDS, RUNTIME, SENTENCES, option("--count", "texts", 2000))
LAYER = 3


def claims(options: Namespace) -> Iterator[Claim]:
    """Compares a search with the bare passes."""
    texts = read_sentences(options.texts, options.count)
    bare = InProcess(Work("mini", EMBEDDED_FOLDER, texts))
    threads = ("--threads", str(torch.get_num_threads()))
    with serving("--runtime", options.runtime, *threads) as server, bertscope.Client(server.target) as client:
        direction = bertscope.SiteDirection("one", LAYER, np.random.default_rng(38).normal(size=client.get_model().hidden_size))

        def search() -> bertscope.Contexts:
            return client.find_contexts(texts, heads="all", neurons="all", directions=direction)

        what = f"FindContexts, all heads, neurons and one direction, {len(texts)} texts, {options.runtime}"
        theirs = f"transformers, bare forward passes, {bare.batch} texts in a batch"
        rate = per_second(len(texts), "texts")
        yield in_turn(search, bare.bare, options.rounds).claim(f"{what} / {theirs}", "at least 0.85", rate)
