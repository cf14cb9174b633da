"""Words that FillMask scores: candidates of all texts or of each, or entries of the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from bertscope.v1 import cloze_pb2

from bertscope_service.api.checks import check_text
from bertscope_service.api.limits import MAX_CANDIDATE_CHARACTERS, RequestLimits
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


def read_candidates(request: cloze_pb2.FillMaskRequest, vocabulary_size: int, limits: RequestLimits) -> GivenWords:
    """Returns the words that a request has scored, checked; all empty if it asks for the likeliest ones."""
    if not (request.candidates or request.text_candidates or request.piece_ids):
        return NOTHING_GIVEN
    given = [field for field in GivenWords._fields if getattr(request, field)]
    if len(given) > 1:
        message = f"{' and '.join(given)} exclude each other; set one of them"
        raise InvalidArgument(given[1], message, "CANDIDATES_TWICE")
    if request.HasField("top_k"):
        raise InvalidArgument("top_k", f"top_k and {given[0]} exclude each other; set one of them", "TOP_K_WITH_CANDIDATES")
    candidates = check_words(request.candidates, "candidates", limits)
    return GivenWords(candidates, _lists(request, limits), _ids(request.piece_ids, vocabulary_size, limits))


def _lists(request: cloze_pb2.FillMaskRequest, limits: RequestLimits) -> tuple[tuple[str, ...], ...]:
    given = request.text_candidates
    if given and len(given) != len(request.texts):
        message = f"text_candidates has {len(given)} lists for {len(request.texts)} texts; give one list for each text"
        raise InvalidArgument("text_candidates", message, "CANDIDATES_MISCOUNTED")
    for index, one in enumerate(given):
        if not one.words:
            field = f"text_candidates[{index}].words"
            raise InvalidArgument(field, f"{field} is empty; give at least one word", "NO_CANDIDATE")
    return tuple(check_words(one.words, f"text_candidates[{index}].words", limits) for index, one in enumerate(given))


def check_candidate(word: str, field: str, limits: RequestLimits) -> str:
    """Checks that a word is neither empty nor too long. Returns it."""
    if len(word) > MAX_CANDIDATE_CHARACTERS:
        message = f"{field} has {len(word)} characters; a candidate may have {MAX_CANDIDATE_CHARACTERS}"
        raise InvalidArgument(field, message, "CANDIDATE_TOO_LARGE")
    return check_text(word, field, limits)


def check_words(candidates: Sequence[str], field: str, limits: RequestLimits) -> tuple[str, ...]:
    """Checks the words to score: not too many, none empty or too long, none twice. Returns them."""
    _check_count(candidates, field, limits)
    seen: set[str] = set()
    for index, word in enumerate(candidates):
        check_candidate(word, f"{field}[{index}]", limits)
        _check_new(word, seen, f"{field}[{index}]")
    return tuple(candidates)


def _ids(ids: Sequence[int], vocabulary_size: int, limits: RequestLimits) -> tuple[int, ...]:
    _check_count(ids, "piece_ids", limits)
    seen: set[int] = set()
    for index, token in enumerate(ids):
        if token >= vocabulary_size:
            message = f"piece_ids[{index}] is {token}; the vocabulary has 0 to {vocabulary_size - 1}"
            raise InvalidArgument(f"piece_ids[{index}]", message, "ID_OUT_OF_RANGE")
        _check_new(token, seen, f"piece_ids[{index}]")
    return tuple(ids)


def _check_count(given: Sequence[object], field: str, limits: RequestLimits) -> None:
    if len(given) > limits.candidates:
        message = f"{field} has {len(given)} entries and this server takes {limits.candidates}; ask in parts"
        raise InvalidArgument(field, message, "TOO_MANY_CANDIDATES", limit=limits.candidates)


def _check_new(one: T, seen: set[T], field: str) -> None:
    if one in seen:
        raise InvalidArgument(field, f"{field} is listed twice; list each once", "DUPLICATE")
    seen.add(one)
