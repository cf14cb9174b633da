"""Counts the tags of words at the best places of units, beside those of words drawn by chance."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from bertscope.errors import invalid_argument
from bertscope.questions.representations.contexts import Contexts, ContextUnit, Place
from bertscope.values import validation
from bertscope.values.columns import Column, named
from bertscope.values.display import record
from bertscope.values.intervals import Interval, wilson_interval
from bertscope.values.positions import Span, parts
from bertscope.values.results import Results

__all__ = ["TagCount", "TagCounts", "count_tags"]

Tags = Sequence[Iterable[tuple[str, int, int]]] | Mapping[int, Iterable[tuple[str, int, int]]]
"""The tags of each text, (tag, start, end): by the index of the text."""
NO_LINK = ""
"""The tag of two words without a link."""


@record
class TagCount:
    """How often the words at a unit's best places have a tag. Of each text the best place alone counts: places of one text are
    alike."""

    unit: ContextUnit
    """The unit."""
    of: str
    """"word"; or of a head "partner", the word that is attended to, or "link", from the word to that."""
    tag: str
    """The tag."""
    found: int
    """Texts whose best place has it."""
    texts: int
    """Texts with a best place whose word has any tag; of links, with a best place."""
    drawn_found: int
    """Texts of the sample whose place has it."""
    drawn: int
    """The same of places that were drawn; of several places of a text the one that was drawn first counts."""
    p: float
    """The chance of so many or more if the best places had the tag as often as drawn ones: Fisher's exact test, one-sided."""
    p_corrected: float
    """The same after Holm's correction for all units and tags that were counted (Holm 1979)."""

    @property
    def share(self) -> float:
        """`found` of `texts`, 0 to 1."""
        return self.found / self.texts if self.texts else math.nan

    @property
    def by_chance(self) -> float:
        """The share among the drawn words, 0 to 1."""
        return self.drawn_found / self.drawn if self.drawn else math.nan

    def interval(self, *, confidence: float = 0.95) -> Interval:
        """Returns Wilson's interval of `share` over texts. Raises InvalidArgument for a confidence outside 0.5 to 0.999."""
        return wilson_interval(self.found, self.texts, confidence=confidence)


class TagCounts(Results[TagCount]):
    """Counts of tags, those that chance explains least first."""

    __slots__ = ()
    _table = (
        *(Column(name, text=True) for name in ("unit", "of", "tag")),
        *named("found", "texts"),
        Column("share", "share of texts", "%", ends=("low", "high")),
        *named("low", "high"),
        Column("by_chance", form="%"),
        Column("drawn"),
        Column("p", form=".1e"),
        Column("p_corrected", "p", ".1e"),
    )

    def best(self) -> TagCounts:
        """Returns the first count of each unit's words, and of each head's partners."""
        return TagCounts({(one.unit, one.of): one for one in reversed(self)}.values()).sorted()

    def sorted(self) -> TagCounts:
        """Returns the counts that chance explains least first."""
        return TagCounts(sorted(self, key=lambda one: (one.p_corrected, one.p)))

    def _rows(self) -> list[tuple[object, ...]]:
        """Returns a row for each count."""
        return [_row(one) for one in self]


def count_tags(found: Contexts, tags: Tags, links: Tags = ()) -> TagCounts:
    """Counts the tags of words at the best places of all units, and of heads' partners: "92 % are determiners, 11 % by chance".

    `tags` are those of each text by its index, (tag, start, end) in code points: parts of speech, relations; `links` those of
    pairs of words, (tag, start, start of the other), which are counted between a word and its partner. Of each text one place
    counts. Chance is the share among the words that were drawn, so draw many (`sample=1000`), and ask for many places
    (`places=100`). Values of p are Fisher's, corrected for all units and tags (Holm 1979).
    """
    tagged = _Tagged(tags, links)
    of_heads = ("word", "partner", "link") if links else ("word", "partner")
    drawn: dict[object, Mapping[str, int]] = {}
    counts = list[tuple[ContextUnit, str, str, int, int, int, int, float]]()
    for one in found:
        for of in of_heads if one.unit.kind == "head" else ("word",):
            best = tagged.count(one.best, of)
            # The words that were drawn are those of all units, but for the partners of a head.
            key = (len(one.sample), one.count) if of == "word" else (one.unit, of)
            if key not in drawn:
                drawn[key] = tagged.count(one.sample, of)
            others = drawn[key]
            texts, sampled = sum(best.values()), sum(others.values())
            for tag, number in best.items():
                if tag == NO_LINK:
                    continue
                chance = others.get(tag, 0)
                p = _fisher(number, texts, chance, sampled)
                counts.append((one.unit, of, tag, number, texts, chance, sampled, p))
    counts.sort(key=lambda row: row[-1])
    corrected, worst = list[float](), 0.0
    for rank, row in enumerate(counts):
        worst = max(worst, min(1.0, row[-1] * (len(counts) - rank)))
        corrected.append(worst)
    return TagCounts([TagCount(*row, p) for row, p in zip(counts, corrected, strict=True)])


class _Tagged:
    """The tags of a corpus: of each text its tagged parts, ascending, and the links of pairs of words, by where these begin."""

    def __init__(self, tags: Tags, links: Tags) -> None:
        self._texts = {index: sorted(self._read("tags", index, each)) for index, each in _by_text(tags)}
        linked = ((index, self._read("links", index, each)) for index, each in _by_text(links))
        self._links = {(index, first, second): name for index, rows in linked for first, second, name in rows}

    @staticmethod
    def _read(what: str, index: int, given: Iterable[tuple[str, int, int]]) -> list[tuple[int, int, str]]:
        rows = []
        for number, value in enumerate(given):
            field = f"{what}[{index}][{number}]"
            tag, start, end, *_ = parts(field, value, (3, 4), "(tag, start, end)")
            if not validation.text(f"{field}'s tag", tag):
                raise invalid_argument(field, "has an empty tag; name it")
            rows.append((validation.uint32(field, start), validation.uint32(field, end), tag))
        return rows

    def count(self, places: Iterable[Place], of: str) -> dict[str, int]:
        """Counts the tags at the first place of each text."""
        found, seen = dict[str, int](), set[int]()
        for place in places:
            span, other = place.span, place.partner_span
            if place.text_index in seen or (of != "word" and other is None):
                continue
            tag: str | None
            if of == "link" and other is not None:
                tag = self._links.get((place.text_index, span.start, other.start), NO_LINK)
            else:
                tag = self._tag(place.text_index, span if other is None or of == "word" else other)
            if tag is not None:
                seen.add(place.text_index)
                found[tag] = found.get(tag, 0) + 1
        return found

    def _tag(self, text: int, span: Span) -> str | None:
        """Returns the tag of the part in which a word begins."""
        rows = self._texts.get(text, [])
        at = bisect_right(rows, span.start, key=lambda row: row[0]) - 1
        return rows[at][2] if at >= 0 and span.start < rows[at][1] else None


def _by_text(tags: Tags) -> Iterable[tuple[int, Iterable[tuple[str, int, int]]]]:
    return tags.items() if isinstance(tags, Mapping) else enumerate(tags)


def _fisher(found: int, of: int, other: int, others: int) -> float:
    """Returns the chance that `found` or more of `of` have a tag if `of` and `others` come from one population, of which so
    many have it (Fisher 1935)."""
    total, tagged = of + others, found + other
    least = math.comb(total, tagged)
    return sum(math.comb(of, k) * math.comb(others, tagged - k) for k in range(found, min(of, tagged) + 1)) / least


def _row(one: TagCount) -> tuple[object, ...]:
    low, high = one.interval()
    counted = (str(one.unit), one.of, one.tag, one.found, one.texts, one.share, low, high)
    return (*counted, one.by_chance, one.drawn, one.p, one.p_corrected)
