"""Candidates of each text, which FillMask scores in its masks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import count

from bertscope import _validation
from bertscope._messages import Asked, asked_texts, with_items
from bertscope.errors import invalid_argument
from bertscope.v1 import cloze_pb2

TextAndCandidates = tuple[str, list[str]]


def asked_candidates(texts: str | Iterable[str], candidates: Iterable[Iterable[str]]) -> Asked[TextAndCandidates]:
    """Returns texts, each with its candidates, read as they are needed."""
    asked = asked_texts(texts)
    lists = _validation.many(field := "candidates_per_text", candidates, "lists of strings, one for each text")
    total = asked.total if isinstance(lists, Sized) else None  # None: both are read to their ends
    if total is not None and isinstance(lists, Sized) and len(lists) != total:
        raise invalid_argument(field, f"has {len(lists)} lists for {total} texts; give one for each")
    return Asked(_paired(asked.items, iter(lists)), total)


def _paired(texts: Iterator[str], lists: Iterator[object]) -> Iterator[TextAndCandidates]:
    """Yields each text with its candidates."""
    ended = object()
    for index in count():
        text, words = next(texts, None), next(lists, ended)
        if text is None and words is ended:
            return
        if text is None or words is ended:
            raise invalid_argument("candidates_per_text", "has not one list for each text")
        field = f"candidates_per_text[{index}]"
        if isinstance(words, str):
            raise invalid_argument(field, "must be a list of strings, not str")
        yield text, _validation.texts(field, words)  # type: ignore[arg-type]  # it checks that


def with_candidates(request: cloze_pb2.FillMaskRequest, items: Sequence[TextAndCandidates]) -> cloze_pb2.FillMaskRequest:
    """Returns the request about some texts, each with its candidates."""
    result = with_items(request, "texts", [text for text, _ in items])
    result.text_candidates.extend(cloze_pb2.CandidateList(words=words) for _, words in items)
    return result
