"""Texts to score, whole or in part, and how long ones are divided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from bertscope.errors import invalid_argument
from bertscope.rpc.sections import PART_WORK, TOKEN_BYTES, WORD, asked_in_sections, row_work
from bertscope.v1 import cloze_scores_pb2, common_pb2
from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.messages import Asked, with_items
from bertscope.values.positions import Span, span
from bertscope.values.validation import TextOrPair

__all__ = ["ScoredInput", "conditional"]

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
        given = validation.many("parts", self.parts, "tuples")
        object.__setattr__(self, "parts", tuple(span(f"parts[{index}]", value) for index, value in enumerate(given)))

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
