"""Plans the rows of a distillation: three parts of texts, the masks of each epoch, and the order of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.texts import masked, read_named_inputs
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.distillation.settings import Predicted
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument
from bertscope_service.groups import within

SPLIT_SHARE, MOST_SPLIT = 0.1, 500
"""The share of the texts that each held-out part gets where none is given, and its most texts."""
SORTED_BATCHES = 50
"""Texts of so many batches are sorted by length together, so that little is padded."""
TRAIN, DEV, TEST = PARTS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class GivenText:
    """A text of a request: its field, its text or pair, and its gold label, -1 without one."""

    field: str
    input: tuple[str, str | None]
    label: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A text as the model reads it. places: the positions of its pieces; special tokens are none."""

    sequence: TokenSequence
    places: NDArray[np.int64]
    label: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """An example as an update reads it. sequence: with masks. places: the predicted positions, empty where a text is predicted.
    gold: int64 [predictions], what stood there, or the label; -1 if it is unknown."""

    sequence: TokenSequence
    places: NDArray[np.int64]
    gold: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sequence)


@dataclass(slots=True)
class Part:
    """The texts of one part. truncated: tokens that were cut away."""

    examples: list[Example] = field(default_factory=list)
    truncated: int = 0

    @property
    def labelled(self) -> int:
        """The texts with a gold label."""
        return sum(example.label >= 0 for example in self.examples)


@dataclass(frozen=True, slots=True)
class DistillationTexts:
    """The texts of each part, and what is predicted of them; labels: those of a model of several labels."""

    parts: dict[str, Part]
    mask_rate: float
    tokenizer: TextTokenizer
    predicted: Predicted
    labels: int
    seed: int

    @classmethod
    def read(
        cls,
        given: dict[str, list[GivenText]],
        tokenizer: TextTokenizer,
        *,
        mask_rate: float,
        predicted: Predicted,
        labels: int,
        truncate: bool,
        seed: int,
    ) -> DistillationTexts:
        """Tokenizes all texts; dev and test texts that are missing are split off the training texts, chosen by `seed`.

        Raises InvalidArgument for a text that is too long, and for too few texts to split.
        """
        parts = {}
        for name, texts in split(given, seed).items():
            part = parts[name] = Part()
            fields, inputs = (text.field for text in texts), [text.input for text in texts]
            for text, tokenized in zip(texts, read_named_inputs(tokenizer, inputs, fields, truncate=truncate), strict=True):
                part.truncated += tokenized.truncated
                special = [which is None for which in tokenized.encoding.sequence_ids]
                part.examples.append(Example(tokenized.sequence, np.flatnonzero(~np.array(special)), text.label))
        return cls(parts, mask_rate, tokenizer, predicted, labels, seed)

    def held_out(self, name: str) -> list[Drawn]:
        """Returns the texts of a part that is not trained on, shortest first, always with the same masks."""
        number = PARTS.index(name)
        drawn = [self._draw(one, [self.seed, 1, number, index]) for index, one in enumerate(self.parts[name].examples)]
        return sorted(drawn, key=len)

    def batches(self, epoch: int, batch_tokens: int) -> Iterator[list[Drawn]]:
        """Yields the texts of each update of an epoch, with the masks of this epoch.

        Both depend on the seed and the epoch alone, so that a training that was cut off can go on.
        """
        examples, generator = self.parts[TRAIN].examples, np.random.default_rng([self.seed, 0, epoch])
        order = generator.permutation(len(examples))
        sizes = [len(examples[number].sequence) for number in order]
        batches: list[NDArray[np.int64]] = []
        for chunk in within(sizes, SORTED_BATCHES * batch_tokens):
            alike = sorted(order[chunk], key=lambda number: len(examples[number].sequence))
            lengths = [len(examples[number].sequence) for number in alike]
            batches += [np.array(alike[part]) for part in within(lengths, batch_tokens)]
        for index in generator.permutation(len(batches)):
            yield [self._draw(examples[number], [self.seed, 2, epoch, number]) for number in batches[index].tolist()]

    def _draw(self, example: Example, seed: Sequence[int]) -> Drawn:
        if self.predicted is Predicted.TOKENS:
            return Drawn(example.sequence, example.places, np.full(len(example.places), -1, dtype=np.int64))
        if self.predicted is not Predicted.MASKED:
            count = self.labels if self.predicted is Predicted.LABEL_SET else 1
            return Drawn(example.sequence, np.empty(0, dtype=np.int64), np.full(count, example.label, dtype=np.int64))
        generator = np.random.default_rng(seed)
        chosen = generator.random(len(example.places)) < self.mask_rate
        if not chosen.any():
            chosen[generator.integers(len(chosen))] = True
        places = example.places[chosen]
        gold = np.asarray(example.sequence.ids, dtype=np.int64)[places]
        return Drawn(masked(example.sequence, places.tolist(), self.tokenizer), places, gold)


def split(given: dict[str, list[GivenText]], seed: int) -> dict[str, list[GivenText]]:
    """Splits dev and test texts off the training texts where none are given. Raises InvalidArgument for too few texts."""
    parts = dict(given)
    missing = [name for name in (DEV, TEST) if not parts[name]]
    size = min(MOST_SPLIT, int(SPLIT_SHARE * len(parts[TRAIN])))
    if missing and not size:
        message = (
            f"train has {len(parts[TRAIN])} texts, too few to hold out a tenth of them as {missing[0]}; "
            "give at least 10, or give dev and test"
        )
        raise InvalidArgument(TRAIN, message, "TOO_FEW_TEXTS")
    order = np.random.default_rng([seed, 3]).permutation(len(parts[TRAIN]))
    texts = parts[TRAIN]
    for number, name in enumerate(missing):
        parts[name] = [texts[index] for index in sorted(order[number * size : (number + 1) * size])]
    parts[TRAIN] = [texts[index] for index in sorted(order[len(missing) * size :])]
    return parts
