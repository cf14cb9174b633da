"""Texts with words or spans, whose classes are known or asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.positions import Span, parts, span
from bertscope.values.validation import TextOrPair

__all__ = ["ProbeText", "UnlabelledText", "ValuedText"]


class Label(NamedTuple):
    """A part of a text with its class."""

    label: str
    """Name of the class."""
    start: int
    """First code point."""
    end: int
    """One past the last code point."""
    segment: int = 0
    """0 for the text, 1 for the second text of a pair."""
    other: Span | None = None
    """The second part, of a label that is of a pair of parts."""


@record
class ProbeText:
    """A text with labelled words or spans.

    >>> ProbeText("The cat sleeps.", [("NOUN", 4, 7)]).labels
    (Label(label='NOUN', start=4, end=7, segment=0, other=None),)
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    labels: Sequence[Label | tuple[str, int, int] | tuple[str, int, int, int] | tuple[str, tuple[int, ...], tuple[int, ...]]]
    """The labelled parts: (label, start, end) or (label, start, end, segment), code points; or of pairs (label, part, part),
    each (start, end) or (start, end, segment)."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text_or_pair("text", self.text)
        object.__setattr__(self, "labels", validation.each("labels", self.labels, "tuples", _label))


def _label(field: str, value: object) -> Label:
    name, place, other = _placed(field, value, "label")
    name = validation.text(f"{field}'s label", name)
    if not name:
        raise invalid_argument(f"{field}'s label", "is empty; name it")
    return Label(name, *place, other)


def _placed(field: str, value: object, kind: str) -> tuple[Any, Span, Span | None]:
    """Returns a label or number with its part, and the second part of a pair."""
    wanted = f"({kind}, start, end), ({kind}, start, end, segment) or ({kind}, part, part)"
    name, *place = parts(field, value, (3, 4, 5), wanted)
    other = place.pop() if len(place) == 4 else None
    if len(place) == 2 and isinstance(place[0], tuple):
        place, other = list(span(f"{field}'s first part", place[0])), place[1]
    return name, span(field, tuple(place)), None if other is None else span(f"{field}'s second part", other)


class Value(NamedTuple):
    """A part of a text with its number."""

    value: float
    """The number."""
    start: int
    """First code point."""
    end: int
    """One past the last code point."""
    segment: int = 0
    """0 for the text, 1 for the second text of a pair."""
    other: Span | None = None
    """The second part, of a number that is of a pair of parts."""


@record
class ValuedText:
    """A text with words or spans that have a number.

    >>> ValuedText("The bag weighs 37 kilograms.", [(37, 15, 17)]).values
    (Value(value=37.0, start=15, end=17, segment=0, other=None),)
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    values: Sequence[
        Value | tuple[float, int, int] | tuple[float, int, int, int] | tuple[float, tuple[int, ...], tuple[int, ...]]
    ]
    """The parts with their numbers, finite: (value, start, end) or (value, start, end, segment), code points; or of pairs
    (value, part, part), each (start, end) or (start, end, segment)."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text_or_pair("text", self.text)
        object.__setattr__(self, "values", validation.each("values", self.values, "tuples", _value))


def _value(field: str, given: object) -> Value:
    value, place, other = _placed(field, given, "value")
    return Value(validation.finite_number(f"{field}'s value", value), *place, other)


def names_of(texts: Iterable[ProbeText]) -> list[str]:
    """Returns the labels of some texts, in alphabetical order."""
    return sorted({label[0] for text in texts for label in text.labels})


@record
class UnlabelledText:
    """A text with words or spans to classify, or pairs of them, whose classes are not known.

    >>> UnlabelledText("The cat sleeps.", [(4, 7)]).spans
    (Span(start=4, end=7, segment=0),)
    >>> UnlabelledText("The cat sleeps.", [((4, 7), (8, 14))]).spans
    ((Span(start=4, end=7, segment=0), Span(start=8, end=14, segment=0)),)
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    spans: Sequence[tuple[int, int] | tuple[int, int, int] | tuple[tuple[int, ...], tuple[int, ...]]]
    """The parts: (start, end) or (start, end, segment), code points; or pairs of such parts."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text_or_pair("text", self.text)
        object.__setattr__(self, "spans", validation.each("spans", self.spans, "tuples", _part))


def _part(field: str, value: object) -> Span | tuple[Span, Span]:
    if not (isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], (tuple, list))):
        return span(field, value)
    return span(f"{field}'s first part", value[0]), span(f"{field}'s second part", value[1])


class AskedSpan(NamedTuple):
    """A span to classify, its label if that is known, and the second span of a pair."""

    label: str | None
    place: Span
    other: Span | None


class AskedText(NamedTuple):
    """A text with its index among the caller's."""

    number: int
    text: ProbeText | UnlabelledText

    @property
    def spans(self) -> list[AskedSpan]:
        """Each span, or pair of spans, with its label."""
        if isinstance(self.text, UnlabelledText):
            given = cast("tuple[Span | tuple[Span, Span], ...]", self.text.spans)
            return [AskedSpan(None, one, None) if isinstance(one, Span) else AskedSpan(None, *one) for one in given]
        labels = cast("tuple[Label, ...]", self.text.labels)
        return [AskedSpan(label.label, Span(label.start, label.end, label.segment), label.other) for label in labels]

    def check(self, *, pairs: bool) -> None:
        """Raises InvalidArgument for a span that is a pair's where the probes take single ones, or the other way round."""
        name = "spans" if isinstance(self.text, UnlabelledText) else "labels"
        for index, one in enumerate(self.spans):
            if (one.other is not None) != pairs:
                problem = (
                    "is a single part; the probe takes pairs" if pairs else "is of a pair of parts; the probe takes single ones"
                )
                raise invalid_argument(f"texts[{self.number}].{name}[{index}]", problem)
