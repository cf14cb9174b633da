"""Statistics of attention maps, written from their definitions cell by cell in float64, and maps of a known kind."""

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float64]


def statistics(weights: Map, texts: Sequence[int], punctuation: Sequence[bool]) -> dict[str, float | None]:
    """Every statistic of one map [L, L] by its name in the contract; None if the text has none.

    texts: the text of each token, -1 for special tokens.
    """
    length = len(weights)
    every = range(length)
    special = [place for place in every if texts[place] < 0]
    words = [place for place in every if texts[place] >= 0]

    def mean(mass: Sequence[float]) -> float:
        return sum(mass) / length

    def column(place: int) -> float:
        return mean([weights[row, place] for row in every])

    def entropy(row: int) -> float:
        return -sum(weight * math.log(weight) for weight in weights[row] if weight > 0)

    def among_words(same: bool) -> float | None:
        cells = [cell for cell in product(words, words) if cell[0] != cell[1] and (texts[cell[0]] == texts[cell[1]]) is same]
        rows = {row for row, _ in cells}
        return float(sum(weights[cell] for cell in cells)) / len(rows) if rows else None

    rest = [column(place) for place in special[1:]]
    return {
        "FIRST_SPECIAL": column(special[0]) if special else None,
        "SEPARATORS": sum(rest) if rest else None,
        "LARGEST_SEPARATOR": max(rest) if rest else None,
        "SELF": mean([weights[row, row] for row in every]),
        "PREVIOUS": sum(weights[row, row - 1] for row in every[1:]) / (length - 1) if length > 1 else None,
        "NEXT": sum(weights[row, row + 1] for row in every[:-1]) / (length - 1) if length > 1 else None,
        "PUNCTUATION": sum(column(place) for place in every if punctuation[place]),
        "SAME_TEXT": among_words(True),
        "OTHER_TEXT": among_words(False),
        "ENTROPY": mean([entropy(row) for row in every]),
        "FIRST_SPECIAL_ENTROPY": entropy(special[0]) if special else None,
        "CONFIDENCE": mean([max(weights[row]) for row in every]),
        "DISTANCE": mean([sum(weights[row, place] * abs(row - place) for place in every) for row in every]),
    }


def jensen_shannon(one: Map, other: Map) -> float:
    """The mean over rows of the divergence between the rows of two maps, nats."""

    def divergence(p: Map, q: Map) -> float:
        return float(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))

    middle = (one + other) / 2
    rows = range(len(one))
    return sum(divergence(one[row], middle[row]) + divergence(other[row], middle[row]) for row in rows) / (2 * len(one))


KINDS = ("VERTICAL", "DIAGONAL", "VERTICAL_DIAGONAL", "BLOCK", "HETEROGENEOUS")
LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128)


def built_maps(seed: int, each: int) -> Iterator[tuple[str, NDArray[np.int8], Map]]:
    """Maps built to be of a kind: the kind, the text of each token, the map; `each` of a kind, a length, and singles or pairs.

    Single texts have no blocks. A map is a mixture of its pattern, which has 55 % to 95 % of each row, and noise: a random
    distribution over all tokens of the text.
    """
    draw = np.random.default_rng(seed)
    for length, pair, kind in product(LENGTHS, (False, True), KINDS):
        if kind == "BLOCK" and not pair:
            continue
        for _ in range(each):
            texts = _texts(draw, length, pair)
            pattern = np.stack([_row(draw, kind, texts, row) for row in range(length)])
            noise = draw.dirichlet(np.ones(length), size=length)
            share = draw.uniform(0.55, 0.95)
            yield kind, texts, share * pattern + (1 - share) * noise


def _texts(draw: np.random.Generator, length: int, pair: bool) -> NDArray[np.int8]:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP]; neither text of a pair is shorter than a third of the words."""
    if not pair:
        return np.array([-1, *[0] * (length - 2), -1], dtype=np.int8)
    words = length - 3
    first = int(draw.integers(math.ceil(words / 3), words - math.ceil(words / 3) + 1))
    return np.array([-1, *[0] * first, -1, *[1] * (words - first), -1], dtype=np.int8)


def _row(draw: np.random.Generator, kind: str, texts: NDArray[np.int8], row: int) -> Map:
    """One row of a pure pattern."""
    length, places = len(texts), np.arange(len(texts))
    if kind == "VERTICAL_DIAGONAL":
        share = draw.uniform(0.4, 0.6)
        return share * _row(draw, "VERTICAL", texts, row) + (1 - share) * _row(draw, "DIAGONAL", texts, row)
    if kind == "VERTICAL":
        return _over(draw, texts < 0, length, 2.0)
    if kind == "DIAGONAL":
        return _over(draw, abs(places - row) <= 1, length, 2.0)
    if kind == "BLOCK":
        return _over(draw, texts == texts[row] if texts[row] >= 0 else texts >= 0, length, 2.0)
    return _over(draw, texts >= 0, length, 0.3)


def _over(draw: np.random.Generator, chosen: NDArray[np.bool_], length: int, evenness: float) -> Map:
    """A random distribution over some tokens."""
    found = np.zeros(length)
    found[chosen] = draw.dirichlet(np.full(int(chosen.sum()), evenness))
    return found
