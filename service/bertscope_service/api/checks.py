"""Checks of texts, layers, heads and new models that several services share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bertscope.v1 import attribution_pb2, cloze_pb2, cloze_scores_pb2, common_pb2, inspection_pb2
from bertscope.v1 import representation_lens_pb2 as lens_pb2

from bertscope_service import cancellation
from bertscope_service.api.field_checks import FILL_MASK_TOP_K
from bertscope_service.api.limits import RequestLimits
from bertscope_service.encoders.base import HeadSet, Shape
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

TopK = cloze_pb2.FillMaskRequest | lens_pb2.ReadLayersRequest | inspection_pb2.InspectRequest
"""A request that says how many predictions to give."""

TextEntry = (
    common_pb2.TextInput
    | cloze_scores_pb2.ScoredInput
    | lens_pb2.LensInput
    | lens_pb2.AttributedInput
    | attribution_pb2.AttributedText
)
"""A message with a text, and the second one of a pair."""

MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def check_texts(texts: Sequence[object], field: str, limits: RequestLimits) -> None:
    """Checks that a request has 1 to `limits.texts` texts."""
    if not texts:
        raise InvalidArgument(field, f"{field} is empty; give at least one text", "NO_TEXT")
    if len(texts) > limits.texts:
        message = f"{field} has {len(texts)} entries and this server takes {limits.texts}; send them in parts"
        raise InvalidArgument(field, message, "TOO_MANY_TEXTS", limit=limits.texts)


def check_text(text: str, field: str, limits: RequestLimits) -> str:
    """Checks that a text has a character that is not blank, and not too many characters. Returns it."""
    cancellation.check()
    if len(text) > limits.text_characters:
        message = f"{field} has {len(text)} characters and this server takes {limits.text_characters}; shorten it"
        raise InvalidArgument(field, message, "TEXT_TOO_LARGE", limit=limits.text_characters)
    if not text or text.isspace():
        raise InvalidArgument(field, f"{field} is empty; leave it out or write some text", "EMPTY_TEXT")
    return text


def check_top_k(request: TopK, vocabulary_size: int) -> int:
    """Returns the number of predictions to give, checked."""
    top_k = request.top_k if request.HasField("top_k") else min(FILL_MASK_TOP_K, vocabulary_size)
    if not 1 <= top_k <= vocabulary_size:
        message = f"top_k is {top_k}; ask for 1 to {vocabulary_size}, the size of the vocabulary"
        raise InvalidArgument("top_k", message, "TOP_K_OUT_OF_RANGE")
    return top_k


def check_tokens(sequences: Iterable[TokenSequence], field: str, limits: RequestLimits) -> None:
    """Checks that all rows of an interactive request together have at most `limits.tokens` tokens."""
    tokens = sum(map(len, sequences))
    if tokens > limits.tokens:
        message = f"{field} make {tokens} tokens of work and this server takes {limits.tokens} in a request; send them in parts"
        raise InvalidArgument(field, message, "TOO_MANY_TOKENS", limit=limits.tokens)


def read_text(entry: TextEntry) -> tuple[str, str | None]:
    """Returns a text, and the second one of a pair."""
    return entry.text, entry.text_pair if entry.HasField("text_pair") else None


def read_texts(entries: Iterable[common_pb2.TextInput]) -> tuple[tuple[str, str | None], ...]:
    """Returns the texts and pairs of a request."""
    return tuple(map(read_text, entries))


def check_numbers(numbers: Sequence[int], field: str, what: str, count: int, model: str) -> tuple[int, ...]:
    """Checks that layer or head numbers are distinct, each 0 to count - 1. Returns them, or all if there are none."""
    seen: set[int] = set()
    for index, number in enumerate(numbers):
        check_number(number, f"{field}[{index}]", what, count, model)
        if number in seen:
            message = f"{what} {number} is listed twice in {field}; list each once"
            raise InvalidArgument(f"{field}[{index}]", message, "DUPLICATE")
        seen.add(number)
    return tuple(numbers) or tuple(range(count))


def check_number(number: int, field: str, what: str, count: int, model: str) -> None:
    """Checks that a layer or head number is 0 to count - 1."""
    if number >= count:
        message = f"{what} {number} is out of range: {model} has {what}s 0 to {count - 1}"
        reason = "HEAD_OUT_OF_RANGE" if what == "head" else "LAYER_OUT_OF_RANGE"
        raise InvalidArgument(field, message, reason, model=model)


def parse_layer_heads(entries: Sequence[common_pb2.LayerHeads], field: str, shape: Shape, model: str) -> HeadSet:
    """Returns heads by layer, all of them spelled out, both ascending."""
    heads: dict[int, tuple[int, ...]] = {}
    for index, entry in enumerate(entries):
        check_number(entry.layer, f"{field}[{index}].layer", "layer", shape.layers, model)
        if entry.layer in heads:
            message = f"layer {entry.layer} is listed twice in {field}; list each once"
            raise InvalidArgument(f"{field}[{index}].layer", message, "DUPLICATE")
        numbers = check_numbers(entry.heads, f"{field}[{index}].heads", "head", shape.heads, model)
        heads[entry.layer] = tuple(sorted(numbers))
    return tuple(sorted(heads.items()))


def read_memory_bytes(request: Any, most: int) -> int:
    """Returns the memory that a call may take, bytes: what its request says, of at most so much, which is the server's setting.
    Raises InvalidArgument."""
    if not request.HasField("memory_bytes"):
        return most
    if not 1 <= request.memory_bytes <= most:
        message = f"memory_bytes is {request.memory_bytes} and this server allows 1 to {most}; leave it out to take all of that"
        raise InvalidArgument("memory_bytes", message, "MEMORY_OUT_OF_RANGE", limit=most)
    return int(request.memory_bytes)


def check_model_id(model_id: str) -> str:
    """Checks a model's id. Raises InvalidArgument if it is malformed or empty."""
    if not MODEL_ID.fullmatch(model_id):
        rule = "1 to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        message = f"model_id {model_id!r} is malformed; use {rule}"
        raise InvalidArgument("model_id", message, "MALFORMED_MODEL_ID")
    return model_id


def check_folder(folder: str) -> Path | None:
    """Returns the folder to save a new model in; None for "". Raises InvalidArgument if it is not absolute."""
    if not folder:
        return None
    if "\0" in folder or not Path(folder).is_absolute():
        message = f"folder {folder!r} is not an absolute path; begin it with '/', or leave it out not to save the model"
        raise InvalidArgument("folder", message, "FOLDER_NOT_ABSOLUTE")
    return Path(folder)
