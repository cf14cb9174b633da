"""Compares the attention of two models, or of one with and without interventions, head by head.

Kovaleva et al. (2019, section 4.3) compare a model with its fine-tuned copy. Both models read the same texts in the same
layers at a time: the maps of the first stay on its device until the second has been compared with them. Several short texts
are compared at a time, and a long one in several steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertscope_service.analyses.attention_description import Statistic, kinds_of, punctuation_ids, statistic_sums
from bertscope_service.analyses.head_sums import HeadSums
from bertscope_service.analyses.observers.map_comparison import ComparisonObserver, KeptMaps, MapDifferences, MapsObserver
from bertscope_service.analyses.texts import check_finite, read_inputs
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Shape
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

KEPT_BYTES = 32 * 1024 * 1024
"""Maximum size of the maps that wait to be compared; those of one layer of a text may take more."""

NUMBER_BYTES = 16
"""Size of the sums of a number of one head in a reply."""


@dataclass(frozen=True, slots=True)
class ComparisonQuery:
    """A CompareAttention request; no `punctuation` means the usual."""

    inputs: tuple[tuple[str, str | None], ...]
    punctuation: tuple[str, ...]
    truncate: bool


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two models: its name, and how it reads texts."""

    name: str
    tokenizer: TextTokenizer
    shape: Shape


@dataclass(frozen=True, slots=True)
class Group:
    """Texts that are compared at a time, by number, and the layers [start, stop) of each step."""

    texts: range
    steps: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The answer to a query: sums over texts."""

    cosine: HeadSums
    divergence: HeadSums
    differences: Mapping[Statistic, HeadSums]


class ComparisonPlan:
    """The steps for a query, and the conversion of their results to sums.

    >>> plan = ComparisonPlan(query, first, second)
    >>> for group in plan.groups:
    ...     for start, stop in group.steps:
    ...         kept = await engine.run(rows with plan.keep(start, stop))
    ...         found = await engine.run(rows with plan.compare(text, start, stop, kept))
    >>> plan.total(differences of each text)

    Raises InvalidArgument for models that don't fit together, a text that is too long or holds no token, and for
    punctuation that is not a single piece.
    """

    def __init__(self, query: ComparisonQuery, first: Side, second: Side) -> None:
        check_alike(first, second)
        self.shape = first.shape
        self.punctuation = punctuation_ids(query.punctuation, first.tokenizer)
        self.texts = list(read_inputs(first.tokenizer, query.inputs, "inputs", truncate=query.truncate))
        self.others = self.texts
        if second.name != first.name:
            self.others = list(read_inputs(second.tokenizer, query.inputs, "inputs", truncate=query.truncate))
            for index, (text, other) in enumerate(zip(self.texts, self.others, strict=True)):
                check_tokens_alike(index, text, other, first, second)
        self._kinds = [kinds_of(text, self.punctuation) for text in self.texts]
        self.groups = tuple(self._groups())

    @property
    def rows(self) -> list[tuple[TokenSequence, MapsObserver]]:
        """The sequence of each text, with its first step."""
        return [(self.texts[text].sequence, self.keep(*group.steps[0])) for group in self.groups for text in group.texts]

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, and of the maps that wait at a time, bytes."""
        reply = NUMBER_BYTES * (len(Statistic) + 2) * self.shape.layers * self.shape.heads
        waiting = max((sum(map(self._map_bytes, group.texts)) * _widest(group) for group in self.groups), default=0)
        return reply + waiting

    @property
    def tokens(self) -> int:
        """The tokens of all texts, special ones included."""
        return sum(map(len, self.texts))

    @property
    def truncated_texts(self) -> int:
        return sum(text.truncated > 0 for text in self.texts)

    def keep(self, start: int, stop: int) -> MapsObserver:
        """Returns the observer of the first model in a step."""
        return MapsObserver(start, stop)

    def compare(self, text: int, start: int, stop: int, kept: KeptMaps) -> ComparisonObserver:
        """Returns the observer of the second model in a step, from the result of the first one's."""
        return ComparisonObserver(start, stop, kept.maps, self._kinds[text])

    def total(self, texts: Sequence[Sequence[MapDifferences]]) -> Comparison:
        """Returns the sums over texts, from the differences of each text's steps. Raises FailedPrecondition for weights
        that are not finite."""
        cosine, divergence, numbers = (
            np.stack([np.concatenate([getattr(step, name) for step in steps]) for steps in texts])
            for name in ("cosine", "divergence", "numbers")
        )
        check_finite([cosine, divergence, numbers])
        differences = statistic_sums(numbers, self._kinds)
        return Comparison(HeadSums.of(cosine), HeadSums.of(divergence), differences)

    def _map_bytes(self, text: int) -> int:
        """Returns the size of the maps of a text in one layer."""
        return 4 * self.shape.heads * len(self.texts[text]) ** 2

    def _groups(self) -> list[Group]:
        """Groups consecutive texts whose maps of all layers fit into KEPT_BYTES together; divides the layers of longer ones."""
        layers = self.shape.layers
        groups: list[Group] = []
        begin = waiting = 0
        for text in range(len(self.texts)):
            size = self._map_bytes(text)
            if text > begin and layers * (waiting + size) > KEPT_BYTES:
                groups.append(self._group(range(begin, text)))
                begin, waiting = text, 0
            waiting += size
        return [*groups, self._group(range(begin, len(self.texts)))]

    def _group(self, texts: range) -> Group:
        layers, size = self.shape.layers, sum(map(self._map_bytes, texts))
        many = min(layers, max(1, KEPT_BYTES // size))
        return Group(texts, tuple((start, min(layers, start + many)) for start in range(0, layers, many)))


def _widest(group: Group) -> int:
    """Returns the layers of a group's largest step."""
    return max(stop - start for start, stop in group.steps)


def check_alike(first: Side, second: Side) -> None:
    """Checks that two models have maps of the same heads. Raises InvalidArgument, which says in what they differ."""
    counts = {
        "layers": (first.shape.layers, second.shape.layers),
        "heads": (first.shape.heads, second.shape.heads),
        "vocabulary entries": (first.tokenizer.size, second.tokenizer.size),
        "tokens in the longest text": (first.tokenizer.max_tokens, second.tokenizer.max_tokens),
    }
    differences = [f"{one} and {other} {what}" for what, (one, other) in counts.items() if one != other]
    if differences:
        raise unlike(first, second, f"they have {'; '.join(differences)}")


def check_tokens_alike(index: int, text: TokenizedText, other: TokenizedText, first: Side, second: Side) -> None:
    """Checks that both models read a text as the same tokens. Raises InvalidArgument."""
    pieces, others = ([piece.text for piece in one.pieces(side.tokenizer)] for one, side in ((text, first), (other, second)))
    if pieces != others or list(text.sequence.ids) != list(other.sequence.ids):
        place = next((at for at, pair in enumerate(zip(pieces, others, strict=False)) if pair[0] != pair[1]), None)
        where = f"inputs[{index}]" if place is None else f"token {place} of inputs[{index}]"
        raise unlike(first, second, f"they read {where} differently")


def unlike(first: Side, second: Side, difference: str) -> InvalidArgument:
    """Returns the error for two models whose maps can't be compared."""
    message = (
        f"{first.name} and {second.name} can't be compared, for {difference}; compare models with the same tokenizer, layers "
        "and heads, such as a model and its fine-tuned copy; models of any shape compare by their best heads (ScoreRelations), "
        "their heads' pattern classes (DescribeAttention) and the CKA of their states (CompareRepresentations)"
    )
    return InvalidArgument("other_model", message, "MODELS_DIFFER")
