"""Runs callers of the cloze job in a separate process: a text in, its likeliest words out, whatever the server.

python -m benchmarks.peers.cloze_callers < ClozeCalls (pickled) > Answers (pickled)
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from dataclasses import dataclass

from benchmarks.lib.calls import Answers, closed_loop
from benchmarks.lib.processes import run_module
from benchmarks.peers.cloze_clients import CLIENTS, TOP_K


@dataclass(frozen=True, slots=True)
class ClozeCalls:
    """A closed loop of calls with one text each. side: a key of CLIENTS. tokenizer: the path of a tokenizer.json."""

    side: str
    target: str
    model: str
    tokenizer: str
    texts: list[str]
    callers: int
    seconds: float


def send(calls: ClozeCalls) -> Answers:
    """Sends the calls from a process of its own."""
    answers: Answers = run_module("benchmarks.peers.cloze_callers", calls, calls.seconds)
    return answers


async def _run(calls: ClozeCalls) -> Answers:
    client = CLIENTS[calls.side].connect(calls.target, calls.model, calls.tokenizer)

    async def ask(number: int) -> None:
        if len(await client.fill(calls.texts[number % len(calls.texts)])) != TOP_K:
            raise ValueError("an answer has another number of words")

    answers = await closed_loop(ask, calls.callers, calls.seconds)
    await client.close()
    return answers


if __name__ == "__main__":
    pickle.dump(asyncio.run(_run(pickle.load(sys.stdin.buffer))), sys.stdout.buffer)
