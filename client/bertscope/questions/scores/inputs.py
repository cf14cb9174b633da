"""Texts to score, whole or in part, how long ones are divided, and sets of texts of which one is right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from bertscope.errors import invalid_argument
from bertscope.rpc.sections import EAGER_TEXTS, PART_WORK, TOKEN_BYTES, WORD, asked_in_sections, row_work
from bertscope.v1 import cloze_scores_pb2, common_pb2
from bertscope.v1 import cloze_scores_pb2 as scores_pb2
from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.messages import Asked, asked, with_items
from bertscope.values.positions import Span, span
from bertscope.values.validation import TextOrPair

__all__ = ["ScoredInput", "TextSet", "conditional"]

BAR = "|"
"""Stands on both sides of what is scored, in a text in one line."""
CLOSING = ".,;:!?)]}'’”…%"
"""Marks that no blank stands before."""


@record
class ScoredInput:
    """A text of which some parts are scored, with all the rest as context.

    >>> ScoredInput("The keys to the cabinet are old.", [(24, 27)]).parts
    (Span(start=24, end=27, segment=0),)
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    parts: Sequence[tuple[int, int] | tuple[int, int, int]] = ()
    """The parts to score: (start, end) or (start, end, segment), code points; empty means the whole. A piece of the vocabulary
    belongs to the part that holds its first character."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text_or_pair("text", self.text)
        object.__setattr__(self, "parts", validation.each("parts", self.parts, "tuples", span))

    @classmethod
    def from_bars(cls, line: str) -> ScoredInput:
        """Returns a text of which what stands after a bar, up to the next one or the end, is scored.

        >>> ScoredInput.from_bars("The keys to the cabinet | are | old.").text
        'The keys to the cabinet are old.'

        Raises InvalidArgument without a bar, or without a word after one.
        """
        pieces = [piece.strip() for piece in validation.text("line", line).split(BAR)]
        if len(pieces) == 1 or not all(pieces[1::2]):
            raise invalid_argument("line", f"{line!r} needs a bar and words after it: 'The keys to the cabinet | are | old.'")
        text, parts = "", list[tuple[int, int]]()
        for number, piece in enumerate(pieces):
            text += _blank(text, piece)
            if number % 2:
                parts.append((len(text), len(text) + len(piece)))
            text += piece
        return cls(text, parts)


def conditional(context: str, continuation: str, after: str = "") -> ScoredInput:
    """Returns the text "context continuation after" of which the continuation is scored, with the rest as context.

    A blank is put between them unless there is one, or a closing mark follows.

    >>> conditional("The keys to the cabinet", "are", "old.")
    ScoredInput(text='The keys to the cabinet are old.', parts=(Span(start=24, end=27, segment=0),))
    """
    context = validation.text("context", context)
    words, after = validation.text("continuation", continuation), validation.text("after", after)
    if not words.strip():
        raise invalid_argument("continuation", "is empty; write the words to score")
    begun = f"{context}{_blank(context, words)}"
    start = len(begun) + len(words) - len(words.lstrip())
    return ScoredInput(f"{begun}{words}{_blank(words, after)}{after}", [(start, start + len(words.strip()))])


def _blank(before: str, after: str) -> str:
    """Returns the blank to put between two parts of a text."""
    apart = before and after and not (before[-1].isspace() or after[0].isspace() or after[0] in CLOSING)
    return " " if apart else ""


ToScore = TextOrPair | ScoredInput
"""A text, a pair, or a text of which some parts are scored."""


class Section(NamedTuple):
    """The words of a text that one call scores."""

    number: int
    """Index of the text among all."""
    given: ToScore
    message: cloze_scores_pb2.ScoredInput
    last: bool
    """True for the last section of a text."""
    work: float
    """Its estimated work: twice the bytes of the text for each row."""


def section_work(section: Section) -> float:
    """Returns the estimated work of a section."""
    return section.work


def with_sections(
    request: cloze_scores_pb2.ScoreTextsRequest, sections: Iterable[Section]
) -> cloze_scores_pb2.ScoreTextsRequest:
    """Returns the request about some sections."""
    return with_items(request, "inputs", [section.message for section in sections])


def text_of(given: ToScore) -> TextOrPair:
    """Returns the text or pair of what was given."""
    return given.text if isinstance(given, ScoredInput) else given


def asked_sections(texts: ToScore | Iterable[ToScore]) -> Asked[Section]:
    """Returns the sections of any number of texts, in order. A short list is checked at once, all else as it is read."""
    many = validation.several("inputs", texts, "texts", ScoredInput)
    checked = (to_score(f"inputs[{index}]", value) for index, value in enumerate(many))
    return asked_in_sections(many, (section for index, given in enumerate(checked) for section in sections_of(index, given)))


def to_score(field: str, value: object) -> ToScore:
    """Returns a text, a pair or a `ScoredInput`."""
    return value if isinstance(value, ScoredInput) else validation.text_or_pair(field, value)


def sections_of(index: int, given: ToScore) -> Iterator[Section]:
    """Yields the sections of a text: one, unless it is long.

    How many words a tokenizer finds is only estimated, so the last section takes all that are left, and one may have none.
    """
    parts, spans = _texts(given), _spans(given)
    scored = [parts[part.segment][part.start : part.end] for part in spans if part.segment < len(parts)] or parts
    words = sum(len(WORD.findall(part)) for part in scored)
    each = row_work(text_of(given))
    rows = max(words, sum(map(len, scored)) / TOKEN_BYTES)
    width = max(1, int(PART_WORK / each * words / max(rows, 1)))
    for start in range(0, max(words, 1), width):
        last = start + width >= words
        message = scored_input(given)
        message.skip_words = start
        if not last:
            message.max_words = width
        share = min(width, words - start) / max(words, 1)
        yield Section(index, given, message, last, each * max(1.0, rows * share))


def scored_input(given: ToScore) -> cloze_scores_pb2.ScoredInput:
    """Returns the message of a whole text."""
    parts = _texts(given)
    return cloze_scores_pb2.ScoredInput(
        text=parts[0],
        text_pair=parts[1] if len(parts) > 1 else None,
        spans=[common_pb2.CharacterSpan(start=start, end=end, segment=segment) for start, end, segment in _spans(given)],
    )


def _texts(given: ToScore) -> tuple[str, ...]:
    text = text_of(given)
    return (text,) if isinstance(text, str) else text


def _spans(given: ToScore) -> tuple[Span, ...]:
    return cast("tuple[Span, ...]", given.parts) if isinstance(given, ScoredInput) else ()


BLANK_FREE = re.compile(r"\S+")


@record
class TextSet:
    """Texts of which one is right, and the groups that the set counts for.

    >>> TextSet(["The keys are old.", "The keys is old."], groups=["agreement"]).right
    0
    """

    texts: Sequence[ToScore]
    """2 to 100 texts, pairs, or texts with parts to score."""
    right: int = 0
    """Index of the right one."""
    groups: str | Iterable[str] = ()
    """Names of groups, such as its paradigm and its field."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        object.__setattr__(self, "texts", validation.each("texts", self.texts, "texts", to_score))
        object.__setattr__(self, "right", validation.uint32("right", self.right))
        object.__setattr__(self, "groups", tuple(validation.texts("groups", self.groups)))

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of its groups."""
        return tuple(self.groups)

    def critical_regions(self) -> TextSet:
        """Returns the set with, of each text, only the words scored that differ between the texts, given the rest.

        >>> TextSet(["The keys are old.", "The keys is old."]).critical_regions().texts[1].parts
        (Span(start=9, end=11, segment=0),)

        The region is between the first words and the last ones that all texts have in common; if a text has no word there, all
        take the following word, too. Raises InvalidArgument for pairs of texts, and for texts that already have parts.
        """
        return TextSet(_regions(self.texts), self.right, self.groups)


ToCompare = TextSet | tuple[ToScore, ToScore]
"""A set, or a minimal pair (good, bad)."""


class AskedSet(NamedTuple):
    """A set with its message and its estimated work."""

    given: TextSet
    message: scores_pb2.TextSet
    work: float


def _regions(texts: Sequence[ToScore]) -> list[ScoredInput]:
    plain = [text for text in texts if isinstance(text, str)]
    if len(plain) < len(texts):
        raise invalid_argument("texts", "have no critical region unless they are single texts without parts")
    words = [[found.span() for found in BLANK_FREE.finditer(text)] for text in plain]
    spelled = [[text[start:end] for start, end in spans] for text, spans in zip(plain, words, strict=True)]
    shortest = min(map(len, spelled))
    first = _common(spelled, shortest)
    last = _common([each[::-1] for each in spelled], shortest - first)
    if first + last == shortest:  # A text has no word of its own.
        first, last = (first, last - 1) if last else (max(0, first - 1), last)
    return [
        ScoredInput(text, [(spans[first][0], spans[len(spans) - last - 1][1])] if spans else ())
        for text, spans in zip(plain, words, strict=True)
    ]


def _common(sequences: Sequence[Sequence[str]], most: int) -> int:
    """Returns how many first words all sequences have in common, `most` at most."""
    columns = zip(*sequences, strict=False)
    return next((index for index, column in enumerate(columns) if index == most or len(set(column)) > 1), most)


def text_set(field: str, value: object) -> TextSet:
    """Returns a set, or a minimal pair as one."""
    if isinstance(value, TextSet):
        return value
    good, bad = validation.pair(field, value, "(good, bad), or a TextSet")
    return TextSet((to_score(f"{field}.good", good), to_score(f"{field}.bad", bad)))


def asked_sets(sets: ToCompare | Iterable[ToCompare], *, critical_region: bool) -> Asked[AskedSet]:
    """Returns any number of sets. A short list is checked at once, all else as it is read."""
    regions = validation.flag("critical_region", critical_region)
    if isinstance(sets, TextSet) or (isinstance(sets, tuple) and any(isinstance(part, (str, ScoredInput)) for part in sets)):
        sets = [sets]  # a tuple with a text in it is one pair
    many = validation.many("sets", sets, "sets")
    return asked(many, _asked(many, regions=regions), most=EAGER_TEXTS)


def set_work(one: AskedSet) -> float:
    """Returns the estimated work of a set."""
    return one.work


def with_sets(request: scores_pb2.CompareTextsRequest, sets: Iterable[AskedSet]) -> scores_pb2.CompareTextsRequest:
    """Returns the request about some sets."""
    return with_items(request, "sets", [one.message for one in sets])


def _asked(sets: Iterable[object], *, regions: bool) -> Iterator[AskedSet]:
    for index, value in enumerate(sets):
        given = text_set(f"sets[{index}]", value)
        scored = given.critical_regions() if regions else given
        message = scores_pb2.TextSet(
            texts=map(scored_input, scored.texts), right=scored.right, groups=dict.fromkeys(scored.group_names)
        )
        work = sum(section.work for text in scored.texts for section in sections_of(0, text))
        yield AskedSet(given, message, work)
