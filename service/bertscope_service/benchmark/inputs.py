"""Inputs of models while their speed is measured: random tokens of one length, or given texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.checkpoints.tokenized_text import check_length
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.timed_runs import Embedding

FIELD = "measurement.texts"
POOL = 16
"""Number of sequences of one length to run one at a time, in turn."""

DISTINCT = 64
"""Number of distinct sequences. Larger batches repeat them, which only saves the time to make more."""

UNKNOWN_SPECIALS = 1000
"""Number of first entries that count as special in an unknown vocabulary."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to measure. Texts need its tokenizer; without one, any id but the first thousand counts as a word. With
    `embedding` it makes vectors of texts; without, its head predicts."""

    encoder: Encoder
    tokenizer: TextTokenizer | None = None
    embedding: Embedding | None = None

    @property
    def prompt(self) -> str:
        """The text that it reads before each."""
        return "" if self.embedding is None or self.embedding.declared is None else self.embedding.declared.prompt


@dataclass(frozen=True, slots=True)
class Measurement:
    """The scope and duration of a measurement; see bertscope.v1.Measurement. Either lengths or texts are set.

    `refuse`: other calls on the devices are rejected; otherwise they wait.
    """

    lengths: tuple[int, ...] = (32, 128)
    texts: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    min_runs: int = 20
    min_seconds: float = 1.0
    max_seconds: float = 600.0
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    refuse: bool = False


@dataclass(frozen=True, slots=True)
class Inputs:
    """Sequences of every model, [models][sequences], of `length` tokens each.

    If `length` is 0 they are the texts' sequences, sorted by their length in the first model.
    """

    length: int
    sequences: Sequence[Sequence[TokenSequence]]

    @property
    def count(self) -> int:
        return len(self.sequences[0])

    @property
    def of_texts(self) -> bool:
        return not self.length

    @property
    def words(self) -> str:
        """The description for people."""
        return "on the texts" if self.of_texts else f"at {self.length} tokens"

    def sizes(self, asked: Sequence[int]) -> list[int]:
        """Returns the requested batch sizes that there are sequences for; at least one."""
        return [size for size in asked if size <= self.count] or [self.count]


def make_inputs(models: Sequence[Subject], measurement: Measurement) -> list[Inputs]:
    """Builds the inputs of each length, or of the texts, which takes seconds for many texts.

    Raises InvalidArgument for a text that is too long for a model.
    """
    if measurement.texts:
        return [_of_texts(models, measurement.texts)]
    pools = _ordinary_ids(models)
    count = max(POOL, *measurement.batch_sizes)
    found = []
    for length in measurement.lengths:
        by_size = {
            size: _random(ids, length, count, seed=[measurement.bootstrap.seed, length, size]) for size, ids in pools.items()
        }
        found.append(Inputs(length, [by_size[model.encoder.shape.vocabulary_size] for model in models]))
    return found


def _ordinary_ids(models: Sequence[Subject]) -> dict[int, NDArray[np.int64]]:
    """Returns ids that are no special token of any model, by size of the vocabulary."""
    special, known = defaultdict[int, set[int]](set), dict[int, int]()
    for model in models:
        size, tokenizer = model.encoder.shape.vocabulary_size, model.tokenizer
        if tokenizer is None:
            special[size] |= set(range(min(UNKNOWN_SPECIALS, size // 2)))
            continue
        special[size] |= {number for number, token in tokenizer.backend.get_added_tokens_decoder().items() if token.special}
        known[size] = min(known.get(size, size), tokenizer.size)
    found = {}
    for size, ids in special.items():
        every = np.arange(known.get(size, size))
        ordinary = np.setdiff1d(every, sorted(ids))
        found[size] = ordinary if len(ordinary) else every
    return found


def _random(ids: NDArray[np.int64], length: int, count: int, *, seed: Sequence[int]) -> list[TokenSequence]:
    drawn = np.random.default_rng(seed).choice(ids, size=(min(count, DISTINCT), length))
    segments = [0] * length
    sequences = [TokenSequence(row, segments) for row in drawn.tolist()]
    return [sequences[number % DISTINCT] for number in range(count)]


def _of_texts(models: Sequence[Subject], texts: Sequence[str]) -> Inputs:
    read = [_read(model.tokenizer, texts, model.prompt) for model in models]
    order = sorted(range(len(texts)), key=lambda index: len(read[0][index]))
    return Inputs(0, [[sequences[index] for index in order] for sequences in read])


def _read(tokenizer: TextTokenizer | None, texts: Sequence[str], prompt: str) -> list[TokenSequence]:
    if tokenizer is None:
        raise InvalidArgument(FIELD, f"{FIELD} can't be read: a model has no tokenizer; give lengths instead", "NO_TOKENIZER")
    sequences = []
    for index, text in enumerate(texts):
        tokenized = tokenizer.encode(prompt + text)
        check_length(tokenized, f"{FIELD}[{index}]", tokenizer.max_tokens, cuttable=False)
        if not len(tokenized):
            message = f"{FIELD}[{index}] holds no token of a model's vocabulary; write some text"
            raise InvalidArgument(f"{FIELD}[{index}]", message, "EMPTY_TEXT")
        sequences.append(tokenized.sequence)
    return sequences
