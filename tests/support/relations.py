"""Scores of linked words, written from their definitions with loops and in float64; and texts with random links."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from bertscope_service.checkpoints.tokenized_text import Piece
from numpy.typing import NDArray

from tests.support.tiny import SENTENCES

MARGIN = 1e-5
"""Where the two largest weights of a row differ by less, either may be the larger one in float32."""

Maps = NDArray[np.float64]
Span = tuple[int, int, int]
"""Start, end and segment of a word."""


@dataclass(frozen=True)
class Linked:
    """A text or pair, its words, and its pairs: relation, source, target."""

    texts: tuple[str, ...]
    words: list[Span]
    pairs: list[tuple[int, int, int]]


@dataclass
class Scores:
    """The scores of one relation in one direction, of one text or summed over texts; arrays are [heads]."""

    largest: list[Maps] = field(default_factory=list)
    largest_by_chance: list[Maps] = field(default_factory=list)
    correct: Maps | float = 0.0
    unsure: Maps | float = 0.0
    by_chance: Maps | float = 0.0
    unsure_by_chance: Maps | float = 0.0


@dataclass
class Expected:
    """What a relation gives."""

    pairs: int = 0
    skipped: int = 0
    chance_pairs: int = 0
    offsets: Counter[int] = field(default_factory=Counter)
    forward: Scores = field(default_factory=Scores)
    backward: Scores = field(default_factory=Scores)


WORDS = r"\w+(?:'\w+)?|[^\w\s]"


def spans_of(text: str, segment: int, pattern: str = WORDS) -> Iterator[Span]:
    return ((match.start(), match.end(), segment) for match in re.finditer(pattern, text))


def links(texts: tuple[str, ...], seed: int, *, relations: int = 3, count: int = 8, pattern: str = WORDS) -> Linked:
    """Random links between words of a text, some of them left out of the words; none across texts."""
    chance = random.Random(seed)
    words = [span for segment, text in enumerate(texts) for span in spans_of(text, segment, pattern) if chance.random() < 0.9]
    pairs: set[tuple[int, int, int]] = set()
    for _ in range(count):
        one, other = chance.randrange(len(words)), chance.randrange(len(words))
        if one != other and words[one][2] == words[other][2]:
            pairs.add((chance.randrange(relations), one, other))
    return Linked(texts, words, sorted(pairs, key=lambda pair: chance.random()))


INNER_LETTERS = r"(?<=[^\W_])[^\W_](?=[^\W_]{2})(?<![^\W_]{3})|\b\w{1,3}\b"
"""Short words, and the second letter of long ones: where no piece begins there, it has none of its own."""

LINKED = [
    *(links((text,), seed) for seed, text in enumerate(SENTENCES[1:])),
    links((SENTENCES[1], SENTENCES[3]), 11, count=30),
    links((SENTENCES[0], SENTENCES[6]), 12, count=30),
    links((SENTENCES[3],), 13, count=60, pattern=INNER_LETTERS),
    links((SENTENCES[2], SENTENCES[3]), 14, count=90, pattern=r"\S+"),
]


def group(pieces: Sequence[Piece], words: Sequence[Span]) -> tuple[list[list[int]], list[int | None]]:
    """The pieces of every word of a text, and the number among them of each given word."""
    found: list[list[int]] = []
    keys: list[object] = []
    for index, piece in enumerate(pieces):
        inside = [
            number
            for number, (start, end, segment) in enumerate(words)
            if not piece.special and segment == piece.segment and start <= piece.start < end
        ]
        key: object = ("given", inside[0]) if inside else ("own", piece.segment, piece.word)
        if piece.special or not keys or keys[-1] != key:
            found.append([])
            keys.append(index if piece.special else key)
        found[-1].append(index)
    return found, [keys.index(("given", number)) if ("given", number) in keys else None for number in range(len(words))]


def expected_scores(maps: Maps, pieces: Sequence[Piece], text: Linked, relations: int) -> list[Expected]:
    """Each relation of a text. maps: [heads of all layers, length, length]."""
    groups, places = group(pieces, text.words)
    segments = [None if pieces[first].special else pieces[first].segment for first, *_ in groups]
    size = range(len(groups))
    by_word = np.array([[maps[:, one][:, :, other].sum(axis=2).mean(axis=1) for other in groups] for one in groups])
    weights = np.array([[maps[:, one][:, :, other].max(axis=(1, 2)) for other in groups] for one in groups])
    likeliest: list[Maps] = []
    margins: list[Maps] = []
    for word in size:
        others = [other for other in size if segments[other] is not None and other != word]
        if not others:
            likeliest.append(np.full(len(maps), -1))
            margins.append(np.ones(len(maps)))
            continue
        order = np.sort(by_word[word, others], axis=0)
        likeliest.append(np.array(others)[by_word[word, others].argmax(axis=0)])
        margins.append(order[-1] - order[-2] if len(others) > 1 else np.ones(len(maps)))
    result = []
    for relation in range(relations):
        mine = [(places[source], places[target]) for number, source, target in text.pairs if number == relation]
        scored = [(source, target) for source, target in mine if source is not None and target is not None]
        expected = Expected(len(scored), len(mine) - len(scored), 0, Counter(target - source for source, target in scored))
        for direction, scores in enumerate((expected.forward, expected.backward)):
            linked = [pair[::-1] if direction else pair for pair in scored]
            by_chance = []
            for source, target in linked:
                offset = target - source
                same = [(word, word + offset) for word in size if word + offset in size]
                same = [(one, other) for one, other in same if segments[one] is not None and segments[one] == segments[other]]
                same = [pair for pair in same if pair not in linked]
                scores.correct = scores.correct + (likeliest[source] == target)
                scores.unsure = scores.unsure + (margins[source] < MARGIN)
                if same:
                    expected.chance_pairs += direction
                    by_chance.append(np.mean([weights[pair] for pair in same], axis=0))
                    scores.by_chance = scores.by_chance + np.mean([likeliest[one] == other for one, other in same], axis=0)
                    unsure = np.mean([margins[one] < MARGIN for one, _ in same], axis=0)
                    scores.unsure_by_chance = scores.unsure_by_chance + unsure
            if linked:
                scores.largest.append(np.max([weights[pair] for pair in linked], axis=0))
            if by_chance:
                scores.largest_by_chance.append(np.max(by_chance, axis=0))
        result.append(expected)
    return result


def added(texts: Sequence[Expected]) -> Expected:
    """A relation over texts."""
    total = Expected()
    for text in texts:
        total.pairs += text.pairs
        total.skipped += text.skipped
        total.chance_pairs += text.chance_pairs
        total.offsets += text.offsets
        for all_, one in ((total.forward, text.forward), (total.backward, text.backward)):
            all_.largest += one.largest
            all_.largest_by_chance += one.largest_by_chance
            all_.correct = all_.correct + one.correct
            all_.unsure = all_.unsure + one.unsure
            all_.by_chance = all_.by_chance + one.by_chance
            all_.unsure_by_chance = all_.unsure_by_chance + one.unsure_by_chance
    return total
