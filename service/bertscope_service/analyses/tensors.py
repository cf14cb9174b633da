"""Texts in, tensors out: the tensors that a model gives, the rows for a query, and the conversion of their results.

Inputs say how the texts are given, outputs say what to compute; any output goes with either kind of input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.classification import log_softmax
from bertscope_service.analyses.observers.masks import MaskObserver, MaskScores
from bertscope_service.analyses.observers.predictions import LabelObserver
from bertscope_service.analyses.observers.sequences import HiddenObserver, LogitsObserver
from bertscope_service.analyses.texts import check_finite
from bertscope_service.checkpoints.entry_names import entry_names
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Capabilities, Shape
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

HIDDEN, LOGITS = "last_hidden_state", "logits"
TOKEN, TOKEN_ID, LABEL, PROBABILITY = "token", "token_id", "label", "probability"
SIZES = {"FP32": 4, "INT64": 8, "BYTES": 16}
"""Bytes of an element in a reply; for a word, approximately."""

Elements: TypeAlias = "Sequence[NDArray[Any] | bytes]"


@dataclass(frozen=True, slots=True)
class TensorKind:
    """A tensor that a model gives: its name, its datatype in the Open Inference Protocol, and its dimensions after the first.

    The first dimension counts texts. -1 marks a dimension that depends on the request.
    """

    name: str
    datatype: str
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a reply. `elements` are in row-major order: consecutive parts of numbers, or one word each."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    elements: Elements


@dataclass(frozen=True, slots=True)
class TensorQuery:
    """A request for tensors. `length` pads the texts in the reply; `outputs` are distinct; `top_k` is the number of tokens or
    labels.

    `field` is the input field that held the texts, `mask` the spelling of a mask in it.
    """

    sequences: Sequence[TokenSequence]
    length: int
    outputs: tuple[TensorKind, ...]
    top_k: int
    field: str
    mask: str

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""
        text = 0
        for kind in self.outputs:
            free = self.length if len(kind.dims) == 2 else self.top_k
            text += SIZES[kind.datatype] * math.prod(free if size < 0 else size for size in kind.dims)
        return len(self.sequences) * text


def given_by(shape: Shape, capabilities: Capabilities, tokenizer: TextTokenizer) -> dict[str, TensorKind]:
    """Returns every tensor that a model gives, by name."""
    kinds: list[TensorKind] = []
    if (capabilities.hidden_states or capabilities.last_states) and not capabilities.drops_tokens:
        kinds.append(TensorKind(HIDDEN, "FP32", (-1, shape.hidden_size)))
    if capabilities.classification:
        kinds += [TensorKind(LOGITS, "FP32", (len(shape.labels),)), TensorKind(LABEL, "BYTES", (-1,))]
    if capabilities.masked_lm and not capabilities.drops_tokens:
        kinds.append(TensorKind(LOGITS, "FP32", (-1, shape.vocabulary_size)))
    if capabilities.masked_lm and tokenizer.mask_id is not None:
        kinds += [TensorKind(TOKEN, "BYTES", (-1,)), TensorKind(TOKEN_ID, "INT64", (-1,))]
    if kinds and kinds[-1].name in (LABEL, TOKEN_ID):
        kinds.append(TensorKind(PROBABILITY, "FP32", (-1,)))
    return {kind.name: kind for kind in kinds}


class TensorPlan:
    """The rows for a query, and the conversion of their results to tensors.

    >>> plan = TensorPlan(query, tokenizer, shape)
    >>> results = await engine.run(plan.rows, ...)
    >>> plan.answer(results)

    A text takes one row for each observer. Raises InvalidArgument for a text without exactly one mask if tokens are requested.
    """

    def __init__(self, query: TensorQuery, tokenizer: TextTokenizer, shape: Shape) -> None:
        self.query = query
        self._tokenizer = tokenizer
        self._labels = shape.labels
        self._asked = asked = {kind.name for kind in query.outputs}
        parts = dict[str, Sequence[Observer]]()
        if HIDDEN in asked:
            parts[HIDDEN] = [HiddenObserver()] * len(query.sequences)
        if LOGITS in asked and not shape.labels:
            parts[LOGITS] = [LogitsObserver()] * len(query.sequences)
        if asked & {LOGITS, LABEL, PROBABILITY} and shape.labels:
            parts[LABEL] = [LabelObserver()] * len(query.sequences)
        if asked & {TOKEN, TOKEN_ID, PROBABILITY} and not shape.labels:
            parts[TOKEN] = self._mask_observers()
        self._parts = tuple(parts)
        self.rows: list[tuple[TokenSequence, Observer]] = [
            row for observers in parts.values() for row in zip(query.sequences, observers, strict=True)
        ]

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""
        return self.query.reply_bytes

    def _mask_observers(self) -> list[MaskObserver]:
        nothing = np.zeros((1, 0), dtype=np.int64)
        return [MaskObserver((position,), self.query.top_k, nothing) for position in self._masks()]

    def _masks(self) -> Iterator[int]:
        """Yields the position of the one mask of each text."""
        for number, sequence in enumerate(self.query.sequences):
            places = np.flatnonzero(np.asarray(sequence.ids) == self._tokenizer.mask_id)
            if len(places) != 1:
                field = f"{self.query.field}[{number}]"
                remedy = (
                    f"write {self.query.mask} once"
                    if not len(places)
                    else "ask FillMask, which fills several, or send a text for each"
                )
                message = f"{field} has {len(places)} masks, and tokens are given for one; {remedy}"
                raise InvalidArgument(field, message, "NOT_ONE_MASK")
            yield int(places[0])

    def answer(self, results: Sequence[Any]) -> list[Tensor]:
        """Returns the tensors, in the requested order. Raises FailedPrecondition for probabilities that are not finite."""
        count = len(self.query.sequences)
        found = {part: results[start * count : (start + 1) * count] for start, part in enumerate(self._parts)}
        made: dict[str, Tensor] = {}
        render: dict[str, Callable[[Sequence[Any]], Iterator[Tensor]]] = {
            HIDDEN: lambda rows: self._padded(HIDDEN, rows),
            LOGITS: lambda rows: self._padded(LOGITS, rows),
            LABEL: self._classified,
            TOKEN: self._filled,
        }
        for part, rows in found.items():
            made |= {tensor.name: tensor for tensor in render[part](rows)}
        return [made[kind.name] for kind in self.query.outputs]

    def _padded(self, name: str, rows: Sequence[NDArray[np.float32]]) -> Iterator[Tensor]:
        """Joins rows [length, size] to one tensor; zeros pad the shorter rows."""
        length, size = self.query.length, rows[0].shape[1]
        elements: list[NDArray[Any]] = []
        for row in rows:
            elements.append(row)
            if len(row) < length:
                elements.append(np.zeros((length - len(row), size), dtype=np.float32))
        yield Tensor(name, "FP32", (len(rows), length, size), elements)

    def _classified(self, scores: Sequence[NDArray[np.float32]]) -> Iterator[Tensor]:
        """Yields the scores unchanged, and the likeliest labels."""
        if LOGITS in self._asked:
            yield Tensor(LOGITS, "FP32", (len(scores), len(self._labels)), list(scores))
        if not {LABEL, PROBABILITY} & self._asked:
            return
        logs = log_softmax(scores)
        ranked = np.argsort(-logs, axis=1, kind="stable")[:, : self.query.top_k]
        yield Tensor(LABEL, "BYTES", ranked.shape, [self._labels[label].encode() for label in ranked.flat])
        yield _probabilities(np.take_along_axis(logs, ranked, axis=1))

    def _filled(self, scores: Sequence[MaskScores]) -> Iterator[Tensor]:
        """Yields the likeliest tokens."""
        ids = np.concatenate([found.top_ids for found in scores])
        logs = np.concatenate([found.top_logs for found in scores])
        check_finite([logs])
        names = chain.from_iterable(entry_names(self._tokenizer, row) for row in ids.reshape(-1, ids.shape[-1]).tolist())
        yield Tensor(TOKEN, "BYTES", ids.shape, [name.encode() for name in names])
        yield Tensor(TOKEN_ID, "INT64", ids.shape, [ids])
        yield _probabilities(logs)


def _probabilities(logs: NDArray[Any]) -> Tensor:
    return Tensor(PROBABILITY, "FP32", logs.shape, [np.exp(np.minimum(logs, 0.0)).astype(np.float32)])
