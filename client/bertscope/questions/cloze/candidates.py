"""Items of FillMask: texts, each maybe with a second text and candidates of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import count
from typing import NamedTuple

from bertscope.errors import invalid_argument
from bertscope.v1 import cloze_pb2
from bertscope.values import validation
from bertscope.values.messages import Asked, asked_texts, with_items

MISSING = object()


class ClozeItem(NamedTuple):
    """A text, its second text, and its candidates; None for what it has not."""

    text: str
    text_pair: str | None = None
    candidates: list[str] | None = None


def asked_cloze(
    texts: str | Iterable[str], text_pairs: str | Iterable[str] | None, candidates_per_text: Iterable[Iterable[str]] | None
) -> Asked[ClozeItem]:
    """Returns texts, each with its second text and its candidates if there are any, read as they are needed."""
    asked = asked_texts(texts)
    if text_pairs is None and candidates_per_text is None:
        return Asked(map(ClozeItem, asked.items), asked.total)
    total = asked.total
    pairs: Iterator[object] | None = None
    if text_pairs is not None:
        field, what = "text_pairs", "strings, one for each text"
        given = [text_pairs] if isinstance(text_pairs, str) else validation.many(field, text_pairs, what)
        pairs, total = iter(given), _total(field, "second texts", given, total)
    lists: Iterator[object] | None = None
    if candidates_per_text is not None:
        field, what = "candidates_per_text", "lists of strings, one for each text"
        given = validation.many(field, candidates_per_text, what)
        lists, total = iter(given), _total(field, "lists", given, total)
    return Asked(_joined(asked.items, pairs, lists), total)


def _total(field: str, what: str, given: Iterable[object], total: int | None) -> int | None:
    """Returns the number of texts, None unless it is known of both: both are read to their ends then."""
    if total is None or not isinstance(given, Sized):
        return None
    if len(given) != total:
        raise invalid_argument(field, f"has {len(given)} {what} for {total} texts; give one for each")
    return total


def _joined(texts: Iterator[str], pairs: Iterator[object] | None, lists: Iterator[object] | None) -> Iterator[ClozeItem]:
    """Yields each text with what belongs to it."""
    for index in count():
        text = next(texts, None)
        pair = _next("text_pairs", "text", pairs, ended=text is None)
        words = _next("candidates_per_text", "list", lists, ended=text is None)
        if text is None:
            return
        second = None if pairs is None else validation.text(f"text_pairs[{index}]", pair)
        yield ClozeItem(text, second, None if lists is None else _words(f"candidates_per_text[{index}]", words))


def _next(field: str, what: str, given: Iterator[object] | None, *, ended: bool) -> object:
    """Returns what belongs to the next text; None if nothing does."""
    if given is None:
        return None
    found = next(given, MISSING)
    if (found is MISSING) != ended:
        raise invalid_argument(field, f"has not one {what} for each text")
    return found


def _words(field: str, words: object) -> list[str]:
    if isinstance(words, str):
        raise invalid_argument(field, "must be a list of strings, not str")
    return validation.texts(field, words)  # type: ignore[arg-type]  # it checks that


def with_cloze_items(request: cloze_pb2.FillMaskRequest, items: Sequence[ClozeItem]) -> cloze_pb2.FillMaskRequest:
    """Returns the request about some texts."""
    result = with_items(request, "texts", [item.text for item in items])
    result.text_pairs.extend(item.text_pair for item in items if item.text_pair is not None)
    result.text_candidates.extend(
        cloze_pb2.CandidateList(words=item.candidates) for item in items if item.candidates is not None
    )
    return result
