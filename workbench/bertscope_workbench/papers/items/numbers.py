"""Makes sentences with numbers, and sums of two numbers, in parts that share no number."""

from collections.abc import Sequence
from random import Random

from bertscope import ValuedText
from bertscope.values.display import record

TEMPLATES = (
    "The bag weighs {} kilograms.",
    "She has read {} pages of the book.",
    "The village is {} miles from the coast.",
    "They sold {} tickets in the first hour.",
    "He counted {} birds on the lake.",
    "The rope is {} metres long.",
)
"""Sentences in which any number from 0 to 199 may stand."""
SUM = "{} plus {}"
PAIRS = 6
"""Sums whose first number is a given one of those to train on."""


@record
class NumberTexts:
    """Texts with a number each."""

    train: tuple[ValuedText, ...]
    """To train on."""
    dev: tuple[ValuedText, ...]
    """To end training."""
    test: tuple[ValuedText, ...]
    """To test on."""
    groups: tuple[float, ...]
    """The independent item that each test text belongs to."""


def values(numbers: range, seed: int = 0) -> NumberTexts:
    """Returns sentences with the numbers of a range, 6 in 10 of the numbers to train on, 1 to end training and 3 to test on: no
    number is in two parts."""
    train, dev, test = divided(numbers, seed)
    return NumberTexts(_sentences(train), _sentences(dev), _sentences(test), _repeated(test))


def beyond(numbers: range, further: range, seed: int = 0) -> NumberTexts:
    """Returns sentences with numbers of a range to train on and to end training, the same as `values` has, and with every third
    number of another range to test on."""
    train, dev, _ = divided(numbers, seed)
    test = [*further][::3]
    return NumberTexts(_sentences(train), _sentences(dev), _sentences(test), _repeated(test))


def sums(numbers: range, seed: int = 0) -> NumberTexts:
    """Returns sums of two numbers, "12 plus 30", whose value is the sum: as `values` divides them, so that both numbers of a
    sum to test on are new. Each of these is in one sum."""
    parts = divided(numbers, seed)
    draw = Random(seed)  # noqa: S311  pairs of numbers, not secrets
    train, dev = ([pair for one in part for pair in _with_others(one, part, draw)] for part in parts[:2])
    test = [*zip(parts[2][::2], parts[2][1::2], strict=False)]
    train_sums, dev_sums, test_sums = (tuple(_sum(*pair) for pair in pairs) for pairs in (train, dev, test))
    return NumberTexts(train_sums, dev_sums, test_sums, tuple(map(float, range(len(test)))))


def divided(numbers: range, seed: int) -> tuple[list[int], list[int], list[int]]:
    """Returns the numbers of a range in three parts, in an order of chance."""
    shuffled = [*numbers]
    Random(seed).shuffle(shuffled)  # noqa: S311  numbers, not secrets
    train, dev = (len(shuffled) * share // 10 for share in (6, 7))
    return shuffled[:train], shuffled[train:dev], shuffled[dev:]


def _sentences(numbers: Sequence[int]) -> tuple[ValuedText, ...]:
    return tuple(_sentence(template, number) for number in numbers for template in TEMPLATES)


def _repeated(numbers: Sequence[int]) -> tuple[float, ...]:
    return tuple(float(number) for number in numbers for _ in TEMPLATES)


def _sentence(template: str, number: int) -> ValuedText:
    start = template.index("{")
    return ValuedText(template.format(number), [(number, start, start + len(str(number)))])


def _with_others(number: int, others: Sequence[int], draw: Random) -> list[tuple[int, int]]:
    return [(number, other) for other in draw.sample(others, min(PAIRS, len(others)))]


def _sum(first: int, second: int) -> ValuedText:
    text = SUM.format(first, second)
    return ValuedText(text, [(first + second, 0, len(text))])
