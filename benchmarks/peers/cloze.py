"""Compares servers on what a user wants of a masked language model: the five likeliest words for the mask of a text."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from benchmarks.lib.calls import Answers
from benchmarks.lib.texts import cloze_texts
from benchmarks.peers.cloze_callers import ClozeCalls, send
from benchmarks.peers.cloze_clients import CLIENTS, POSITION, Answer, likeliest, tokenized
from benchmarks.peers.graph import Graph
from benchmarks.peers.running import MODEL, Running

TOLERANCE = 1e-4
CHECKED = 32
"""Every side must have the right words for this many texts of each kind."""

PARAGRAPH = (
    "Every country keeps its government somewhere, and people learn the name of that city at school. Some of these cities are "
    "old and large, others were built for the purpose on empty land, and a few have moved from one river to another. "
)
TEXTS = {9: cloze_texts(), 57: [PARAGRAPH + text for text in cloze_texts()]}
"""Texts with one mask each, by their median number of tokens."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Callers with one text a call, of a number of tokens."""

    length: int
    callers: int

    def __str__(self) -> str:
        return f"{self.length} tokens, {self.callers} callers"


@dataclass(frozen=True, slots=True)
class ClozeCallers:
    """The callers of all servers. `graph` tells the right answers."""

    tokenizer: Path
    graph: Path

    def check(self, title: str, server: Running) -> None:
        """Raises ValueError if a server has other words or probabilities than the graph itself."""
        tokenizer, graph = Tokenizer.from_file(str(self.tokenizer)), Graph(str(self.graph), 1)
        texts = [text for some in TEXTS.values() for text in some[:CHECKED]]
        found = asyncio.run(self._fill(title, server, texts))
        for text, answer in zip(texts, found, strict=True):
            check_answer(title, text, answer, fill_directly(graph, tokenizer, text))

    async def _fill(self, title: str, server: Running, texts: list[str]) -> list[Answer]:
        client = CLIENTS[title].connect(server.target, MODEL, str(self.tokenizer))
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(client.close)
            # One after the other: a server that has just started may refuse many calls, until it knows how fast it is.
            return [await client.fill(text) for text in texts]

    def read(self, title: str, server: Running, cell: Cell, lasting: float) -> Answers:
        """Runs a cell's callers for some seconds."""
        texts = TEXTS[cell.length]
        return send(ClozeCalls(title, server.target, MODEL, str(self.tokenizer), texts, cell.callers, lasting))


def fill_directly(graph: Graph, tokenizer: Tokenizer, text: str) -> Answer:
    """Returns the answer of the graph with a gather, run in this process."""
    feeds, position = tokenized(tokenizer, text)
    return likeliest(tokenizer, graph.run({**feeds, POSITION: np.array([[position]])})[0])


def check_answer(title: str, text: str, found: Answer, right: Answer) -> None:
    """Raises ValueError for other words, in another order unless they are as likely, or for other probabilities."""
    values = dict(right)
    same = {word for word, _ in found} == values.keys() and all(
        abs(probability - values[word]) <= TOLERANCE * values[word] for word, probability in found
    )
    if not same:
        raise ValueError(f"{title} answers {found} to {text!r}, and the graph {right}")
