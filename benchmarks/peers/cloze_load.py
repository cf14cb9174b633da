"""Runs callers of the cloze job in a separate process: a text in, its likeliest words out, whatever the server.

Reads jobs from stdin, a line of JSON each, and answers each with a line of JSON: the fields of `ClozeLoad` and `Reading`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.cloze_clients import CLIENTS, TOP_K, ClozeClient
from benchmarks.peers.load import closed_loop


@dataclass(frozen=True, slots=True)
class ClozeLoad:
    """A closed loop of calls with one text each.

    side: a key of CLIENTS. tokenizer: path of a tokenizer.json. texts: the file with the texts, a line each.
    """

    side: str
    target: str
    model: str
    tokenizer: str
    texts: str
    callers: int
    calls: int


async def main() -> None:
    clients: dict[str, ClozeClient] = {}
    while line := await asyncio.to_thread(sys.stdin.readline):
        load = ClozeLoad(**json.loads(line))
        if load.target not in clients:
            clients[load.target] = CLIENTS[load.side].connect(load.target, load.model, load.tokenizer)
        client = clients[load.target]
        texts = (await asyncio.to_thread(Path(load.texts).read_text)).splitlines()

        async def ask(number: int, client: ClozeClient = client, texts: list[str] = texts) -> None:
            if len(await client.fill(texts[number % len(texts)])) != TOP_K:
                raise ValueError("an answer has another number of words")

        print(json.dumps(asdict(await closed_loop(ask, load.callers, load.calls, 1))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
