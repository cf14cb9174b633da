"""Texts whose scores are attributed to words, each with its target; and how the pairs of long ones are divided among calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple, TypeVar, cast

from bertscope.errors import invalid_argument
from bertscope.rpc.pacing import Pace
from bertscope.rpc.sections import PART_WORK, TOKEN_BYTES, WORD, asked_in_sections, row_work
from bertscope.v1 import attribution_pb2, common_pb2
from bertscope.values import validation
from bertscope.values.messages import Asked, with_items
from bertscope.values.positions import span
from bertscope.values.score_targets import Place, ScoreTarget, target_message
from bertscope.values.validation import TextOrPair

T = TypeVar("T")
Request = attribution_pb2.AttributeWordsRequest
Places = Sequence[Place]
"""The parts of a text that get values."""

EXACT_UNITS, PAIRS, STEPS = 10, 10, 10
"""The contract's defaults, for estimates of work."""
MAX_PAIRS = 10_000
"""The most pairs of a call."""
PAIR_NUMBERS = 1 << 32
"""How many numbers the first pair of a call may have."""
GRADIENT_ROWS = 3
"""A row with its gradient takes about as long as so many without."""
LAYERS = 12
"""Layers of a model, for the same."""
TRIPLED = 9
"""About how many times its first steps integrated gradients runs."""


class Section(NamedTuple):
    """The pairs of orders of a text that one call samples; everything there is, unless the text is long."""

    number: int
    """Index of the text among all."""
    text: TextOrPair
    target: ScoreTarget
    message: attribution_pb2.AttributedText
    pairs: range | None
    """Numbers of its pairs; None for what the request says, from the first on."""
    last: bool
    """True for the last section of a text."""
    work: float
    """Its estimated work: twice the bytes of the text for each row."""
    ends_call: bool = False
    """True if the next section has other pairs, which a request has once."""


def section_work(section: Section) -> float:
    """Returns the estimated work of a section."""
    return section.work


class SectionPace(Pace[Section]):
    """The pace of calls, each of which has sections with the same pairs."""

    def some(self, items: Iterator[Section]) -> Iterator[Section]:
        """Yields the first sections, up to the work of a call or to one that ends it."""
        for section in super().some(items):
            yield section
            if section.ends_call:
                return


def asked_sections(
    texts: TextOrPair | Iterable[TextOrPair],
    target: ScoreTarget | Iterable[ScoreTarget],
    spans: Places | Iterable[Places] | None,
    request: Request,
) -> Asked[Section]:
    """Returns the sections of any number of texts, in order. A short list is checked at once, all else as it is read."""
    alone = isinstance(texts, str) or validation.is_pair(texts)
    many = validation.several("inputs", texts, "texts")
    targets = repeat(target) if isinstance(target, (ScoreTarget, str)) else validation.many("target", target, "targets")
    return asked_in_sections(many, _sections(many, targets, _spans(spans, alone=alone), request))


def asked_whole(
    texts: TextOrPair | Iterable[TextOrPair], target: ScoreTarget | Iterable[ScoreTarget], request: Request
) -> Asked[Section]:
    """Does the same as `asked_sections`, of texts of which no parts are named."""
    return asked_sections(texts, target, None, request)


def _spans(spans: Any, *, alone: bool) -> Iterable[Any]:
    """Returns the parts of each text, from a list of parts for one text, or such a list for each of several."""
    if spans is None:
        return repeat(())
    many = validation.many("spans", spans, "parts of a text")
    if not isinstance(many, Sequence):
        return many
    several = (tuple, list)
    flat = any(not isinstance(part, several) or (part and not isinstance(part[0], several)) for part in many)
    if flat and not alone:
        raise invalid_argument("spans", "are parts of one text; give a list of parts for each text")
    return [many] if flat or (alone and not many) else many


def _sections(texts: Iterable[Any], targets: Iterable[Any], spans: Iterable[Any], request: Request) -> Iterator[Section]:
    """Yields the sections of texts; each knows whether the one after it has other pairs."""
    before: Section | None = None
    found = (
        section for number, given in enumerate(_together(texts, targets, spans)) for section in _of(number, given, request)
    )
    try:
        for section in found:
            if before is not None:
                yield before._replace(ends_call=before.pairs != section.pairs)
            before = section
    except Exception:
        if before is not None:
            yield before  # What comes before an error is answered.
        raise
    if before is not None:
        yield before


def _together(texts: Iterable[T], targets: Iterable[Any], spans: Iterable[Any]) -> Iterator[tuple[T, Any, Any]]:
    others = {"target": iter(targets), "spans": iter(spans)}
    nothing = object()
    for number, text in enumerate(texts):
        given = {field: next(values, nothing) for field, values in others.items()}
        for field, value in given.items():
            if value is nothing:
                raise invalid_argument(field, f"has {number} and there are more texts; give one for each text")
        yield text, given["target"], given["spans"]
    for field, values in others.items():
        if not isinstance(values, repeat) and next(values, nothing) is not nothing:
            raise invalid_argument(field, "has more than there are texts; give one for each text")


def _of(number: int, given: tuple[Any, Any, Any], request: Request) -> Iterator[Section]:
    """Yields the sections of a text: one, unless its values are sampled and its rows are many.

    How many units a tokenizer finds is only estimated. If there are so few that the values are exact, each section has them.
    """
    text = validation.text_or_pair(f"inputs[{number}]", given[0])
    parts = validation.many(f"spans[{number}]", given[2], "parts of the text")
    message = attribution_pb2.AttributedText(
        text=text if isinstance(text, str) else text[0],
        text_pair=None if isinstance(text, str) else text[1],
        target=target_message(f"target[{number}]", given[1]),
        spans=[
            common_pb2.CharacterSpan(**span(f"spans[{number}][{index}]", part)._asdict()) for index, part in enumerate(parts)
        ],
    )
    count, each = _unit_count(message, request), row_work(text)
    pairs = request.pairs if request.HasField("pairs") else PAIRS
    target, shapley = cast("ScoreTarget", given[1]), attribution_pb2.ATTRIBUTION_METHOD_SHAPLEY
    if request.method != shapley or request.interactions or count <= _exact_units(request):
        yield Section(number, text, target, message, None, True, each * _rows(count, request))
        return
    rows = 2 * (count - 1)
    width = min(MAX_PAIRS, max(1, int(PART_WORK / each / rows)))
    if width >= pairs:
        yield Section(number, text, target, message, None, True, each * (2 + pairs * rows))
        return
    first, end = request.first_pair, request.first_pair + pairs
    starts = [*range(first, end, width), end]
    if starts[-2] >= PAIR_NUMBERS:
        raise invalid_argument(
            "first_pair", f"is {first}, too near the last number of a pair, {PAIR_NUMBERS - 1}; begin earlier"
        )
    for start, stop in pairwise(starts):
        yield Section(number, text, target, message, range(start, stop), stop == end, each * (2 + (stop - start) * rows))


def _exact_units(request: Request) -> int:
    return request.exact_units if request.HasField("exact_units") else EXACT_UNITS


def _unit_count(message: attribution_pb2.AttributedText, request: Request) -> int:
    """Returns about how many units a text has."""
    if message.spans:
        return len(message.spans)
    words = len(WORD.findall(message.text)) + len(WORD.findall(message.text_pair))
    size = len(message.text.encode()) + len(message.text_pair.encode())
    of_pieces = request.unit == attribution_pb2.ATTRIBUTION_UNIT_PIECE or not message.text.isascii()
    return max(1, words, size // TOKEN_BYTES if of_pieces else 0)


def _rows(count: int, request: Request) -> float:
    """Returns about how many rows a text runs, as one section; a gradient counts as several."""
    method = attribution_pb2.AttributionMethod
    layers = (len(request.site.layers) or LAYERS) if request.HasField("site") else 1
    if request.method == method.ATTRIBUTION_METHOD_OCCLUSION:
        return count + 2
    if request.method == method.ATTRIBUTION_METHOD_INTEGRATED_GRADIENTS:
        return layers * GRADIENT_ROWS * TRIPLED * (request.steps or STEPS)
    return (
        layers * GRADIENT_ROWS
        if request.method != method.ATTRIBUTION_METHOD_SHAPLEY
        else 2.0 ** min(count, _exact_units(request))
    )


def with_sections(request: Request, sections: Sequence[Section]) -> Request:
    """Returns the request about some sections, which have the same pairs."""
    found = with_items(request, "inputs", [section.message for section in sections])
    pairs = sections[0].pairs if sections else None
    if pairs is not None:
        found.first_pair, found.pairs = pairs.start, len(pairs)
    return found
