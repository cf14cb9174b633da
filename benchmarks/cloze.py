"""Cloze through gRPC against transformers' own pipeline, and against our encoder without a server around it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import bertscope
import torch
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery, FilledText
from bertscope_service.analyses.masks import MaskScores
from bertscope_service.encoders.torch_encoder import TorchEncoder
from bertscope_service.sources import EMBEDDED_FOLDER
from bertscope_service.tokenization import TextTokenizer
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

from benchmarks.measure import Claim, in_turn, per_second, seconds
from benchmarks.serving import serving
from benchmarks.texts import cloze_texts

CALLERS = 8
BATCH_TOKENS = 1024
TOP_K = 5


def claims(rounds: int) -> Iterator[Claim]:
    """Texts per second; 8 callers at a time, one text or an eighth of the texts in a call."""
    texts = cloze_texts()
    fill = pipeline(
        "fill-mask",
        model=AutoModelForMaskedLM.from_pretrained(EMBEDDED_FOLDER, dtype=torch.float32),
        tokenizer=AutoTokenizer.from_pretrained(EMBEDDED_FOLDER),
        top_k=TOP_K,
    )
    best = min((8, 32, 64, 128), key=lambda size: seconds(lambda: fill(texts, batch_size=size)))
    direct = Direct()
    rate = per_second(len(texts), "texts")
    with serving() as server:
        expected = [entry[0]["token"] for entry in fill(texts, batch_size=best)]
        for size in (1, -(-len(texts) // CALLERS)):
            answers = ask(server.target, texts, size)
            assert [answer.masks[0].predictions[0].piece_ids[0] for answer in answers] == expected
            assert [answer.masks[0].predictions[0].piece_ids[0] for answer in direct(texts)] == expected
            how = f"{CALLERS} callers, {size} text{'s' * (size > 1)} a call"

            def ours(size: int = size) -> None:
                ask(server.target, texts, size)

            pair = in_turn(ours, lambda: fill(texts, batch_size=best), rounds)
            yield pair.claim(f"cloze over gRPC, {how} / fill-mask pipeline, batch {best}", "4x, at least 2.5x", rate)
            pair = in_turn(ours, lambda: direct(texts), rounds)
            yield pair.claim(f"cloze over gRPC, {how} / our encoder in-process", "at least 0.85x", rate)


class Direct:
    """Our encoder in-process, with perfect batches: all texts sorted by length, tokenized before."""

    def __init__(self) -> None:
        self._encoder = TorchEncoder.load(EMBEDDED_FOLDER, "bert", device=torch.device("cpu"), precision="fp32")
        self._tokenizer = TextTokenizer.load(EMBEDDED_FOLDER, self._encoder.shape.max_tokens)
        self._plans: dict[tuple[str, ...], ClozePlan] = {}

    @torch.inference_mode()
    def __call__(self, texts: list[str]) -> list[FilledText]:
        key = tuple(texts)
        if key not in self._plans:
            self._plans[key] = ClozePlan(ClozeQuery(key, TOP_K, (), truncate=False), self._tokenizer)
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


def ask(target: str, texts: list[str], size: int) -> list[bertscope.FilledText]:
    """Have all texts filled by CALLERS callers at a time, `size` texts a call; answers in the order of the texts."""
    return asyncio.run(_ask(target, texts, size))


async def _ask(target: str, texts: list[str], size: int) -> list[bertscope.FilledText]:
    parts = list(enumerate(texts[begin : begin + size] for begin in range(0, len(texts), size)))
    answers: dict[int, list[bertscope.FilledText]] = {}
    async with bertscope.AsyncClient(target) as client:

        async def caller() -> None:
            while parts:
                number, part = parts.pop()
                answers[number] = list(await client.fill_mask(part, top_k=TOP_K))

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return [answer for number in sorted(answers) for answer in answers[number]]
