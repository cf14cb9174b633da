"""Defines what a user writes to fill the mask of a text: a call of ours, or tokens sent and scores received as tensors."""

from __future__ import annotations

from typing import Protocol, Self, TypeAlias

import bertscope
import grpc
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from benchmarks.lib.caller_process import OPTIONS
from benchmarks.lib.open_inference import request, stub
from benchmarks.peers.graph import INPUTS

IDS = INPUTS[0]
TOP_K = 5
POSITION = "mask_position"
"""The additional input of a graph that gathers: int64 [texts, 1]."""


Answer: TypeAlias = "list[tuple[str, float]]"
"""The likeliest vocabulary entries for a mask with their probabilities, likeliest first."""


class ClozeClient(Protocol):
    """A client of one server."""

    @classmethod
    def connect(cls, target: str, model: str, tokenizer: str) -> Self:
        """Connects to a server; `tokenizer` is the path of a tokenizer.json, for clients that tokenize."""

    async def fill(self, text: str) -> Answer:
        """Returns the likeliest words for the one mask of a text."""

    async def close(self) -> None: ...


class OurClient:
    """FillMask by bertscope.AsyncClient."""

    def __init__(self, client: bertscope.AsyncClient, model: str) -> None:
        self._client, self._model = client, model

    @classmethod
    def connect(cls, target: str, model: str, tokenizer: str) -> Self:
        return cls(bertscope.AsyncClient(target, options=[("grpc.lb_policy_name", "round_robin")]), model)

    async def fill(self, text: str) -> Answer:
        (found,) = await self._client.fill_mask(text, model=self._model, top_k=TOP_K)
        return [(one.pieces[0], one.probability) for one in found.masks[0].predictions]

    async def close(self) -> None:
        await self._client.close()


class TensorClient:
    """Tokenizes, sends tensors by the Open Inference Protocol, and takes the likeliest words from the scores of all tokens."""

    gathered = False
    """True if the server's graph gathers the scores of the mask, whose position is then an input."""

    def __init__(self, channel: grpc.aio.Channel, model: str, tokenizer: Tokenizer) -> None:
        self._channel, self._model, self._tokenizer = channel, model, tokenizer
        self._call = stub(channel).ModelInfer

    @classmethod
    def connect(cls, target: str, model: str, tokenizer: str) -> Self:
        return cls(grpc.aio.insecure_channel(target, OPTIONS), model, Tokenizer.from_file(tokenizer))

    async def fill(self, text: str) -> Answer:
        inputs, position = tokenized(self._tokenizer, text)
        if self.gathered:
            inputs[POSITION] = np.array([[position]])
        reply = await self._call(request(self._model, inputs))
        scores = np.frombuffer(reply.raw_output_contents[0], np.float32)
        return likeliest(self._tokenizer, scores if self.gathered else scores.reshape(inputs[IDS].size, -1)[position])

    async def close(self) -> None:
        await self._channel.close()


class GatheredClient(TensorClient):
    """Takes the likeliest words from the scores of the mask alone."""

    gathered = True


def tokenized(tokenizer: Tokenizer, text: str) -> tuple[dict[str, NDArray[np.int64]], int]:
    """Returns the inputs of a graph for one text, and the position of its mask. Raises ValueError if it has none."""
    encoded = tokenizer.encode(text)
    rows = (encoded.ids, encoded.attention_mask, encoded.type_ids)
    return {name: np.array([row]) for name, row in zip(INPUTS, rows, strict=True)}, encoded.tokens.index("[MASK]")


def likeliest(tokenizer: Tokenizer, scores: NDArray[np.float32]) -> Answer:
    """Returns the best TOP_K entries of the vocabulary; `scores` are those of one mask."""
    best = np.argpartition(scores, -TOP_K)[-TOP_K:]
    best = best[np.argsort(-scores[best])]
    highest = scores[best[0]]
    probabilities = np.exp(scores[best] - highest) / np.exp(scores - highest).sum()
    return [(str(tokenizer.id_to_token(token)), float(one)) for token, one in zip(best, probabilities, strict=True)]


OURS, ALL_SCORES, GATHERED = "ours", "Triton, all scores", "Triton, the mask's scores"

CLIENTS: dict[str, type[ClozeClient]] = {OURS: OurClient, ALL_SCORES: TensorClient, GATHERED: GatheredClient}
"""The client of each side, by its name in the table."""
