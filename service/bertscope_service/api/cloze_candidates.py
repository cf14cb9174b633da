"""Words that FillMask scores: candidates of all texts or of each, or entries of the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from bertscope.v1 import cloze_pb2

from bertscope_service.errors import InvalidArgument

T = TypeVar("T")


class GivenWords(NamedTuple):
    """The words to score, at most one kind of them: for all texts, for each text, and ids of vocabulary entries."""

    candidates: tuple[str, ...] = ()
    text_candidates: tuple[tuple[str, ...], ...] = ()
    piece_ids: tuple[int, ...] = ()


NOTHING_GIVEN = GivenWords()


def candidate_characters(request: cloze_pb2.FillMaskRequest) -> int:
    """Returns the number of characters of the candidates that a text tokenizes, about."""
    found = sum(map(len, request.candidates))
    if request.text_candidates:
        found += max(sum(map(len, given.words)) for given in request.text_candidates)
    return found


def read_candidates(request: cloze_pb2.FillMaskRequest, vocabulary_size: int) -> GivenWords:
    """Returns the words that a request has scored, checked; all empty if it asks for the likeliest ones."""
    if not (request.candidates or request.text_candidates or request.piece_ids):
        return NOTHING_GIVEN
    given = [field for field in GivenWords._fields if getattr(request, field)]
    if len(given) > 1:
        message = f"{' and '.join(given)} exclude each other; set one of them"
        raise InvalidArgument(given[1], message, "CANDIDATES_TWICE")
    if request.HasField("top_k"):
        raise InvalidArgument("top_k", f"top_k and {given[0]} exclude each other; set one of them", "TOP_K_WITH_CANDIDATES")
    return GivenWords(tuple(request.candidates), _lists(request), _ids(request.piece_ids, vocabulary_size))


def _lists(request: cloze_pb2.FillMaskRequest) -> tuple[tuple[str, ...], ...]:
    given = request.text_candidates
    if given and len(given) != len(request.texts):
        message = f"text_candidates has {len(given)} lists for {len(request.texts)} texts; give one list for each text"
        raise InvalidArgument("text_candidates", message, "CANDIDATES_MISCOUNTED")
    return tuple(tuple(one.words) for one in given)


def _ids(ids: Sequence[int], vocabulary_size: int) -> tuple[int, ...]:
    seen: set[int] = set()
    for index, token in enumerate(ids):
        if token >= vocabulary_size:
            message = f"piece_ids[{index}] is {token}; the vocabulary has 0 to {vocabulary_size - 1}"
            raise InvalidArgument(f"piece_ids[{index}]", message, "ID_OUT_OF_RANGE")
        _check_new(token, seen, f"piece_ids[{index}]")
    return tuple(ids)


def _check_new(one: T, seen: set[T], field: str) -> None:
    if one in seen:
        raise InvalidArgument(field, f"{field} is listed twice; list each once", "DUPLICATE")
    seen.add(one)
