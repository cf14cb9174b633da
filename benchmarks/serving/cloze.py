"""Measures cloze through gRPC against transformers' own pipeline, and against our encoder without a server around it."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Self

import bertscope
import torch
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery, FilledMask
from bertscope_service.analyses.observers.masks import MaskScores
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.torch.loading import load_encoder
from transformers import pipeline

from benchmarks.lib.measure import Claim, fastest, in_turn, per_second
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import cloze_texts, plain

OPTIONS = (ROUNDS,)
CALLERS = 8
BATCH_TOKENS = 1024
TOP_K = 5


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures texts per second of 8 callers at a time, with one text, eight, or an eighth of all texts in a call."""
    texts, rounds = cloze_texts(), options.rounds
    model, tokenizer = plain()
    fill = pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=TOP_K)
    best = fastest((8, 32, 64, 128), lambda size: fill(texts, batch_size=size))
    direct = Direct()
    rate = per_second(len(texts), "texts")
    expected = [entry[0]["token"] for entry in fill(texts, batch_size=best)]
    assert [masks[0].words[0].pieces[0] for masks in direct(texts)] == expected
    with serving() as server, Callers(server.target) as callers:
        for size in (1, 8, -(-len(texts) // CALLERS)):
            answers = callers.ask(texts, size)
            assert [answer.masks[0].predictions[0].piece_ids[0] for answer in answers] == expected
            how = f"{CALLERS} callers, {size} text{'s' * (size > 1)} a call"
            ours = partial(callers.ask, texts, size)
            pair = in_turn(ours, lambda: fill(texts, batch_size=best), rounds)
            yield pair.claim(f"cloze over gRPC, {how} / fill-mask pipeline, batch {best}", "4x, at least 2.5x", rate)
            pair = in_turn(ours, lambda: direct(texts), rounds)
            yield pair.claim(f"cloze over gRPC, {how} / our encoder in-process", "at least 0.85x", rate)


class Direct:
    """Our encoder in-process, with perfect batches: all texts sorted by length, tokenized before."""

    def __init__(self, folder: Path = EMBEDDED_FOLDER, top_k: int = TOP_K) -> None:
        self._encoder = load_encoder(folder, "bert", device=torch.device("cpu"), precision="fp32")
        self._tokenizer = TextTokenizer.load(folder, self._encoder.shape.max_tokens)
        self._top_k = top_k
        self._plans: dict[tuple[str, ...], ClozePlan] = {}

    @torch.inference_mode()
    def __call__(self, texts: list[str]) -> list[list[FilledMask]]:
        """Returns the predictions for the masks of each text."""
        key = tuple(texts)
        if key not in self._plans:
            self._plans[key] = ClozePlan(ClozeQuery(key, self._top_k, (), truncate=False), self._tokenizer)
        plan = self._plans[key]
        order = sorted(range(len(plan.rows)), key=lambda row: len(plan.rows[row][0]))
        scores: dict[int, MaskScores] = {}
        while order:
            size = len(plan.rows[order[0]][0])
            batch = [row for row in order[: BATCH_TOKENS // size] if len(plan.rows[row][0]) <= size * 1.1]
            order = order[len(batch) :]
            state = self._encoder.begin([plan.rows[row][0] for row in batch])
            observers = [plan.rows[row][1] for row in batch]
            readout = type(observers[0]).run(self._encoder, state, None, observers)
            scores.update(zip(batch, readout.deal(tuple(tensor.numpy() for tensor in readout.tensors)), strict=True))
        return plan.answer([scores[row] for row in range(len(plan.rows))])


class Callers:
    """Calls at a time, CALLERS of them, on one connection, which stays open, as a service's does."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner().__enter__()
        self._client = self._runner.run(self._connect())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def ask(self, texts: list[str], size: int) -> list[bertscope.FilledText]:
        """Fills all texts, `size` texts a call; returns the answers in the order of the texts."""
        return self._runner.run(self._ask(texts, size))

    async def _connect(self) -> bertscope.AsyncClient:
        return bertscope.AsyncClient(self._target)

    async def _ask(self, texts: list[str], size: int) -> list[bertscope.FilledText]:
        parts = list(enumerate(texts[begin : begin + size] for begin in range(0, len(texts), size)))
        answers: dict[int, list[bertscope.FilledText]] = {}

        async def caller() -> None:
            while parts:
                number, part = parts.pop()
                answers[number] = list(await self._client.fill_mask(part, top_k=TOP_K))

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return [answer for number in sorted(answers) for answer in answers[number]]
