"""The parts of a question of the soak. Each question queries a model, by its name, and answers can be compared."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import bertscope
import grpc.aio
import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.fillings import TOLERANCE, Filling, agree

RELATIVE_TOLERANCE = 1e-2
"""Tolerance of numbers that sum many rounded ones, beside the absolute TOLERANCE."""


class Role(Enum):
    """The model of a question."""

    EMBEDDED = "embedded"
    ONNX = "onnx"
    """The embedded model by ONNX Runtime; a ranking of its heads reads it by PyTorch, too."""
    CLASSIFIER = "classifier"
    TAGGER = "tagger"
    RATER = "rater"
    ANSWERER = "answerer"
    GUEST = "guest"
    """The model that is loaded, replaced and unloaded all the time."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A connection for each protocol."""

    client: bertscope.AsyncClient
    channel: grpc.aio.Channel


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer to a question. `digest` is that of the weights, "" if the protocol does not report it."""

    digest: str
    filled: Sequence[Filling] = ()
    arrays: Sequence[NDArray[Any]] = ()

    def agrees(self, truth: Answer) -> bool:
        """Returns whether this is the true answer or, for a cancelled stream, its beginning."""
        if self.filled or truth.filled:
            return agree(self.filled, truth.filled)
        return 0 < len(self.arrays) <= len(truth.arrays) and all(map(_close, self.arrays, truth.arrays))


class Ask(Protocol):
    """Queries a model within `seconds`."""

    def __call__(self, caller: Caller, model: str, seconds: float) -> Awaitable[Answer]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One query. `truth` asks the same, for everything that an answer may hold."""

    kind: str
    role: Role
    ask: Ask
    truth: Ask
    weight: float = 1.0
    """Its frequency relative to the others."""


def _close(found: NDArray[Any], truth: NDArray[Any]) -> bool:
    return found.shape == truth.shape and bool(np.allclose(found, truth, rtol=RELATIVE_TOLERANCE, atol=TOLERANCE))
