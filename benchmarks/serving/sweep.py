"""Compares a sweep over every head with one full forward per head: our own encoder without reuse, and transformers with
hooks."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import torch
from bertscope_service.ablation.evaluation import Change, Evaluation
from bertscope_service.ablation.sweep_plan import every_head
from bertscope_service.analyses.interventions import Interventions, Mode
from bertscope_service.analyses.objectives.masked_lm import MaskedLmObjective, MaskedLmQuery
from bertscope_service.analyses.observers.predictions import GoldObserver
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.limits import Limits
from bertscope_service.observability.metrics import Metrics
from numpy.typing import NDArray

from benchmarks.lib.measure import Claim, all_in_turn, fastest, mebibytes, share
from benchmarks.lib.options import ROUNDS, option
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import bert_base, plain, texts_of_lengths

OPTIONS = (ROUNDS, option("--texts", "texts, of the claim's 64, which take half an hour", 4))
LENGTH = 32
HEADS = every_head(12, 12)
MEMORY_BYTES = 512 * 1024 * 1024
MIB = 1024 * 1024


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures speed, and memory, of a bert-base."""
    with bert_base() as folder:
        yield from _speed(folder, options.texts, options.rounds)
        yield from _memory(folder)


def _speed(folder: Path, texts: int, rounds: int) -> Iterator[Claim]:
    """Measures closing every head of a bert-base in turn, masked-LM loss of texts of 32 tokens."""
    encoder = load_encoder(folder, "bert", device=torch.device("cpu"), precision="fp32")
    tokenizer = TextTokenizer.load(folder, encoder.shape.max_tokens)
    written = tuple(texts_of_lengths([LENGTH] * texts, mask=False))
    objective = MaskedLmObjective(MaskedLmQuery(written, 0, 0.15, truncate=False), tokenizer)
    peers = {"our encoder": Naive(encoder, objective), "transformers with hooks": Hooked(folder, objective)}
    with Ours(encoder, objective) as ours:
        expected = ours()
        for peer in peers.values():
            np.testing.assert_allclose(peer(), expected, atol=1e-4)
        pairs = all_in_turn(ours, list(peers.values()), rounds)
    what = f"every head of bert-base closed in turn, {texts} texts of {LENGTH} tokens / one full forward per head"
    for (name, peer), pair in zip(peers.items(), pairs, strict=True):
        goal = "2.2x, at least 1.8x" if name.startswith("our") else ""
        yield pair.claim(f"{what}, {name}, batch {peer.batch}", goal, lambda taken: f"{taken:.1f} s")


class Ours:
    """The sweep as the server runs it, without gRPC around: the losses, [heads, texts]."""

    def __init__(self, encoder: TorchEncoder, objective: MaskedLmObjective) -> None:
        self._encoder = encoder
        self._objective = objective

    def __enter__(self) -> Ours:
        self._runner = asyncio.Runner().__enter__()
        self._engine = Engine(lambda _: Limits(1024, 262_144), Metrics())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._engine.close())
        self._runner.close()

    def __call__(self) -> NDArray[np.float64]:
        return self._runner.run(self._sweep())

    async def _sweep(self) -> NDArray[np.float64]:
        untouched = Interventions.none(12, 12)
        bulk = BulkRunner(self._engine, self._encoder, "benchmark", None)
        evaluation = Evaluation(self._encoder, self._objective, bulk, Change(Mode.ZERO), MEMORY_BYTES)
        await evaluation.baseline(untouched)
        found = {}
        async with aclosing(evaluation.changed(untouched, HEADS)) as measured:
            async for heads, values in measured:
                found[heads] = values[0]
        return np.stack([found[heads] for heads in HEADS])


class Peer:
    """A loop over the heads, each a full forward of all texts in batches of the best size."""

    def __init__(self, objective: MaskedLmObjective) -> None:
        self._sequences = objective.sequences
        self._observers: Sequence[Any] = objective.observers

    @cached_property
    def batch(self) -> int:
        """The fastest of some batch sizes, on one head."""
        sizes = [size for size in (1, 4, 8, 16, 32, 64) if size <= len(self._sequences)]
        return fastest(sizes, lambda size: self.head(0, 0, size))

    @torch.inference_mode()
    def __call__(self) -> NDArray[np.float64]:
        return np.stack([self.head(layer, head, self.batch) for ((layer, (head,)),) in HEADS])

    @torch.inference_mode()
    def head(self, layer: int, head: int, size: int) -> NDArray[np.float64]:
        """Returns the losses with one head closed, [texts], of `size` texts at a time."""
        losses = []
        for begin in range(0, len(self._sequences), size):
            part = slice(begin, begin + size)
            observers: list[GoldObserver] = list(self._observers[part])
            rows = torch.tensor([row for row, observer in enumerate(observers) for _ in observer.positions])
            places = torch.tensor([place for observer in observers for place in observer.positions])
            golds = torch.from_numpy(np.concatenate([observer.golds for observer in observers]))
            logits = self.forward(part, layer, head, rows, places)
            found = (logits.gather(1, golds) - logits.logsumexp(dim=1, keepdim=True))[:, 0]
            counts = [len(observer.positions) for observer in observers]
            losses += [-float(logs.mean()) for logs in found.split(counts)]
        return np.array(losses)

    def forward(self, part: slice, layer: int, head: int, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Returns scores over the vocabulary at the masks alone."""
        raise NotImplementedError


class Naive(Peer):
    """Our own encoder, packed weights and all, from the embeddings on for every head."""

    def __init__(self, encoder: TorchEncoder, objective: MaskedLmObjective) -> None:
        super().__init__(objective)
        self._encoder = encoder

    def forward(self, part: slice, layer: int, head: int, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        gates = Interventions.none(12, 12).change(((layer, (head,)),), Mode.ZERO).edits()
        state = self._encoder.begin(self._sequences[part])
        self._encoder.advance(state, 12, self._encoder.place_edits([gates] * len(state.lengths)))
        return self._encoder.logits(state, rows, places)


class Hooked(Peer):
    """transformers' unmodified model (SDPA), with a hook that zeroes a head's slice before the output projection."""

    def __init__(self, folder: Path, objective: MaskedLmObjective) -> None:
        super().__init__(objective)
        self._model, _ = plain(folder)

    def forward(self, part: slice, layer: int, head: int, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        def close(_: object, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            context = inputs[0].clone()
            context[..., head * 64 : (head + 1) * 64] = 0
            return (context,)

        dense = self._model.bert.encoder.layer[layer].attention.output.dense
        handle = dense.register_forward_pre_hook(close)
        ids = torch.tensor([list(sequence.ids) for sequence in self._sequences[part]])
        hidden = self._model.bert(input_ids=ids).last_hidden_state
        handle.remove()
        logits: torch.Tensor = self._model.cls(hidden[rows, places])
        return logits


def _memory(folder: Path) -> Iterator[Claim]:
    """Measures the peak of the server's resident memory during a sweep over the layers, over that after a small sweep."""
    texts = texts_of_lengths([LENGTH] * 128, mask=False)
    with serving("--model", f"bert-base={folder}") as server, bertscope.Client(server.target) as client:
        client.sweep_heads(bertscope.MaskedLmLoss(texts[:32]), scope="layers").table()
        for budget in (64 * MIB, 8 * MIB):
            before = server.resident_bytes()
            with server.peak() as peak:
                client.sweep_heads(bertscope.MaskedLmLoss(texts), scope="layers", memory_bytes=budget).table()
            what = f"server memory during a sweep over 12 layers, {len(texts)} texts, states of 25 MiB / budget for states"
            yield share(what, [peak[0] - before], [budget], mebibytes)
