"""The plan of a sweep over sites: pairs of runs, and the places that change one at a time.

Vectors of one run are put into another (activation patching, Vig et al. 2020; causal tracing, Meng et al. 2022, section 2), or
changed within one run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.targets import Target
from bertscope_service.analyses.probes import SpanPlaces
from bertscope_service.analyses.site_changes import PlannedChange
from bertscope_service.analyses.targets import TargetQuery, TargetReader, Unresolved
from bertscope_service.analyses.texts import masked, read_named_inputs
from bertscope_service.analyses.words import Span, words_of
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.paths import Receiver, Sender
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Change, Place, Site
from bertscope_service.errors import InvalidArgument

MAX_CHANGES = 100_000
"""Most effects of one call."""

MAX_RUNS = 100_000
"""Most runs without changes in one call, of all pairs and draws of noise."""

PAIR_BYTES, TOKEN_BYTES = 100, 160
"""The memory of a pair and of a token in a reply."""

Source = Place | tuple[Receiver, Sender]
"""Names vectors of another run in a layer."""

Positions = NDArray[np.int64] | None
"""Tokens of a text, ascending; None for all of them."""


class PositionScope(Enum):
    """The positions that change at a time; see bertscope.v1.PositionScope."""

    EACH = "each"
    EACH_WORD = "each_word"
    TOGETHER = "together"
    GROUPS = "groups"


class Direction(Enum):
    """The run that is changed; see bertscope.v1.PatchDirection."""

    RESTORE = "restore"
    BREAK = "break"


@dataclass(frozen=True, slots=True)
class NoiseQuery:
    """A bertscope.v1.EmbeddingNoise."""

    spans: tuple[Span, ...]
    deviation: float
    samples: int
    seed: int


@dataclass(frozen=True, slots=True)
class MaskedQuery:
    """Parts of a text whose pieces become masks."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class PairQuery:
    """A bertscope.v1.PatchedPair. `corruption` is None for changes within the clean run. `field` names the pair in errors."""

    clean: tuple[str, str | None]
    corruption: tuple[str, str | None] | NoiseQuery | MaskedQuery | None
    target: TargetQuery
    groups: Mapping[str, tuple[Span, ...]]
    field: str

    def text(self, given: tuple[str, str | None]) -> tuple[str, str | None]:
        """Returns a text of the pair as the model reads it, behind the prompt of its target."""
        return self.target.prompt + given[0], given[1]


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Normal noise at some positions before the first layer, `deviation` times the standard deviation of all numbers that the
    states of the text have there. The same seed and text give the same noise in every call."""

    positions: NDArray[np.int64]
    deviation: float
    samples: int
    seed: tuple[int, int]

    @classmethod
    def of(cls, query: NoiseQuery, positions: NDArray[np.int64], texts: Iterable[str]) -> Noise:
        digest = hashlib.blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return cls(positions, query.deviation, query.samples, (query.seed, int.from_bytes(digest, "big")))

    def change(self, sample: int, size: int, spread: float) -> Change:
        """Returns one draw for states of `size` numbers, whose standard deviation is `spread`."""
        drawn = np.random.default_rng((*self.seed, sample)).standard_normal((len(self.positions), size), dtype=np.float32)
        drawn *= np.float32(self.deviation * spread)
        return Change(Site.STATE, 0, self.positions, None, 1.0, drawn)


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Units of a site in a layer, which change together. `unit` is the number of one that is measured alone.

    planned: their change at all tokens, or, for vectors of another run, a change without any. given: the change, once all its
    vectors are known. size: the numbers in a vector of the site. sender, receiver: the ends of a path; the units are what the
    receiver gives.
    """

    planned: PlannedChange
    size: int
    unit: int | None = None
    given: Change | None = None
    sender: Sender | None = None
    receiver: Receiver | None = None

    @property
    def source(self) -> Source:
        """The vectors that it takes from another run: by their place, or by the path that they come on."""
        if self.sender is None or self.receiver is None:
            return self.place
        return self.receiver, self.sender

    @property
    def place(self) -> Place:
        """The site and its layer."""
        return self.planned.place

    def change(self, positions: Positions, vectors: NDArray[np.float32] | None) -> Change:
        """Returns the change at some positions. `vectors`: of the other run at this site, float32 [tokens, size]; None if the
        change is given."""
        if vectors is None:
            return replace(self.given or self.planned.change, positions=positions)
        return replace(self.planned.with_vectors(vectors if positions is None else vectors[positions]), positions=positions)


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A pair of runs. `runs` are the clean text and, for a corrupted one, its tokens; with noise these are the clean text's.

    groups: what changes one after another, the number of a position, word or group with its tokens. `corrupted` is the
    corrupted text as it was written, None without one.
    """

    clean: TokenizedText
    corrupted: TokenizedText | None
    other: TokenSequence | None
    noise: Noise | None
    target: Target | Unresolved
    groups: Sequence[tuple[int, Positions]]
    prompt: int

    @property
    def samples(self) -> int:
        """Corrupted runs: one for each draw of noise."""
        return 0 if self.other is None else 1 if self.noise is None else self.noise.samples

    def __len__(self) -> int:
        return len(self.clean)


class SitePlan:
    """The plan of a SweepSites request. `units` are in the order of their effects: by layer, then as they were asked for.

    Raises InvalidArgument for a text that is too long, a corrupted one of another length, a target or a part of a text that is
    not there, and for too many effects.
    """

    def __init__(
        self,
        queries: Sequence[PairQuery],
        units: Sequence[Units],
        positions: PositionScope,
        direction: Direction | None,
        memory_bytes: int,
        tokenizer: TextTokenizer,
        reader: TargetReader,
    ) -> None:
        self.units = sorted(units, key=lambda one: one.place[1])
        self.positions, self.direction, self.memory_bytes = positions, direction, memory_bytes
        self.names = list(dict.fromkeys(name for query in queries for name in query.groups))
        """Names of the groups, for PositionScope.GROUPS."""
        self.pairs = list(self._read(queries, tokenizer, reader))
        self.groups = 1 + max((number for pair in self.pairs for number, _ in pair.groups), default=-1)
        """Number of positions, words or groups of the pair that has most."""
        runs = sum(1 + pair.samples for pair in self.pairs)
        if runs > MAX_RUNS:
            message = f"pairs make {runs} runs with all draws of noise and one call takes {MAX_RUNS}; send them in parts"
            raise InvalidArgument("pairs", message, "TOO_MANY_ITEMS", limit=MAX_RUNS)
        if self.total > MAX_CHANGES:
            layers = len({one.place[1] for one in self.units})
            message = (
                f"scopes name {len(self.units)} units in {layers} layers, each of which changes at {self.groups} positions or "
                f"groups: {self.total} changes, and one call measures {MAX_CHANGES}; name layers or units, or change positions "
                "together"
            )
            raise InvalidArgument("scopes", message, "TOO_MANY_CHANGES", limit=MAX_CHANGES)

    @property
    def total(self) -> int:
        """The number of effects."""
        return len(self.units) * self.groups

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the first message, bytes."""
        return sum(PAIR_BYTES + TOKEN_BYTES * len(pair) * (1 + (pair.corrupted is not None)) for pair in self.pairs)

    @cached_property
    def vector_size(self) -> int:
        """The numbers of a token's vectors at all sites of the layer with most."""
        by_layer = Counter[int]()
        for (layer, _), size in {(one.place[1], one.source): one.size for one in self.units}.items():
            by_layer[layer] += size
        return max(by_layer.values())

    def give(self, changes: Sequence[Change]) -> None:
        """Takes the changes of the units, with what reference texts give."""
        self.units = [replace(one, given=change) for one, change in zip(self.units, changes, strict=True)]

    def _read(self, queries: Sequence[PairQuery], tokenizer: TextTokenizer, reader: TargetReader) -> Iterator[Pair]:
        clean = [(query.text(query.clean), f"{query.field}.clean") for query in queries]
        corrupted = [
            (query.text(query.corruption), f"{query.field}.corrupted")
            for query in queries
            if isinstance(query.corruption, tuple)
        ]
        texts, others = (
            read_named_inputs(tokenizer, [text for text, _ in some], [field for _, field in some], truncate=None)
            for some in (clean, corrupted)
        )
        for query, text in zip(queries, texts, strict=True):
            corruption = next(others) if isinstance(query.corruption, tuple) else query.corruption
            yield self._pair(query, text, corruption, tokenizer, reader)

    def _pair(
        self,
        query: PairQuery,
        text: TokenizedText,
        corruption: TokenizedText | NoiseQuery | MaskedQuery | None,
        tokenizer: TextTokenizer,
        reader: TargetReader,
    ) -> Pair:
        parts = PartsOf(text, tokenizer, len(query.target.prompt))
        other, noise, corrupted = None, None, None
        match corruption:
            case NoiseQuery():
                positions = parts.tokens(corruption.spans, f"{query.field}.noise.spans")
                noise, other = Noise.of(corruption, positions, text.texts), text.sequence
            case MaskedQuery():
                positions = parts.tokens(corruption.spans, f"{query.field}.masked")
                other = masked(text.sequence, positions.tolist(), tokenizer)
            case TokenizedText():
                other, corrupted = corruption.sequence, corruption
                if len(other) != len(text):
                    field = f"{query.field}.corrupted"
                    message = f"{field} has {len(other)} tokens and the clean text {len(text)}; give a text of as many"
                    raise InvalidArgument(field, message, "CORRUPTION_MISSING")
        target, groups = reader.read(query.target, text), self._groups(query, parts)
        return Pair(text, corrupted, other, noise, target, groups, parts.prompt)

    def _groups(self, query: PairQuery, parts: PartsOf) -> Sequence[tuple[int, Positions]]:
        match self.positions:
            case PositionScope.TOGETHER:
                return [(0, None)]
            case PositionScope.GROUPS:
                numbers = {name: number for number, name in enumerate(self.names)}
                return [
                    (numbers[name], parts.tokens(spans, f"{query.field}.groups[{index}].spans"))
                    for index, (name, spans) in enumerate(query.groups.items())
                ]
            case PositionScope.EACH_WORD:
                return list(enumerate(parts.words()))
        return list(enumerate(np.arange(len(parts.text), dtype=np.int64)[:, None]))


class PartsOf:
    """Finds the tokens of parts of a text behind a prompt of so many code points."""

    def __init__(self, text: TokenizedText, tokenizer: TextTokenizer, prompt: int) -> None:
        self.text, self.prompt = text, prompt
        self._tokenizer = tokenizer

    def words(self) -> list[NDArray[np.int64]]:
        """Returns the tokens of each word and of each special token."""
        membership, words = words_of(self.text.pieces(self._tokenizer), self.text)
        return [np.flatnonzero(membership == number) for number in range(len(words))]

    def tokens(self, spans: Sequence[Span], field: str) -> NDArray[np.int64]:
        """Returns the tokens that begin in some spans, ascending. Raises InvalidArgument for a span in which none begins."""
        places, found = SpanPlaces(self.text, self._tokenizer), set[int]()
        for index, span in enumerate(spans):
            tokens = places.of(Span(span.start + self.prompt, span.end + self.prompt, span.segment))
            if isinstance(tokens, str):
                message = f"{field}.spans[{index}] holds the first character of no piece; name whole words"
                raise InvalidArgument(f"{field}.spans[{index}]", message, "NO_PIECE")
            found.update(tokens)
        return np.array(sorted(found), dtype=np.int64)
