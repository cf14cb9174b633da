"""Checks the files of a tokenizer before a library reads them: their ids must fit the model and each other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bertscope_service.checkpoints.files import MAX_SETTINGS_BYTES, MAX_TOKENIZER_BYTES, TOKENIZER_PATTERNS, check_size
from bertscope_service.encoders.refusals import refused, shown, unreadable

LARGE = ("tokenizer.json", "vocab.json", "vocab.txt", "merges.txt")
"""Files that hold vocabularies; the others hold some settings."""

TYPES = ("WordPiece", "BPE", "Unigram", "WordLevel")


def check_tokenizer_files(folder: Path, entries: int, segments: int) -> None:
    """Checks the files. `entries` are the rows of the model's embedding, `segments` the segments it distinguishes, 0 if it
    reads none.

    Raises FailedPrecondition, naming the file and the entry; OSError.
    """
    for path in (path for pattern in TOKENIZER_PATTERNS for path in folder.glob(pattern) if path.is_file()):
        check_size(path, MAX_TOKENIZER_BYTES if path.name in LARGE or path.suffix == ".model" else MAX_SETTINGS_BYTES)
    _check_lines(folder / "vocab.txt", entries)
    vocabulary = folder / "vocab.json"
    if vocabulary.is_file():
        _check_ids(vocabulary, "", _read(vocabulary), entries)
    added = folder / "added_tokens.json"
    if added.is_file():
        _check_ids(added, "", _read(added), entries)
    _check_settings(folder / "tokenizer_config.json", entries)
    whole = folder / "tokenizer.json"
    if whole.is_file():
        _check_whole(whole, _read(whole), entries, segments)


def _check_lines(path: Path, entries: int) -> None:
    """Checks that a vocab.txt has no more entries than the model, before a library reads them: a million take a minute and two
    gigabytes."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        lines = sum(part.count(b"\n") for part in iter(partial(file.read, 1 << 20), b""))
    if lines > entries and len(set(path.read_bytes().split(b"\n"))) > entries:
        raise refused(path, "the number of its lines", lines, f"the model has {entries} entries; they don't belong together")


def _check_whole(path: Path, written: Mapping[str, Any], entries: int, segments: int) -> None:
    """Checks a tokenizer.json: its vocabulary, added tokens, and the special tokens around a text."""
    model = written.get("model")
    if not isinstance(model, Mapping):
        raise refused(path, "model", model, "it must be an object with the vocabulary")
    # Older files lack the type of some models.
    if model.get("type") not in (None, *TYPES):
        raise refused(path, "model.type", model["type"], f"allowed are {', '.join(TYPES)}")
    ids = _vocabulary(path, model.get("vocab"), entries)
    owners = {number: piece for piece, number in ids.items()}
    if len(owners) != len(ids):
        piece, number = next((piece, number) for piece, number in ids.items() if owners[number] != piece)
        raise refused(path, f"the id of {shown(piece)}", number, f"{shown(owners[number])} has it, too; ids must be unique")
    for index, token in enumerate(written.get("added_tokens") or ()):
        if not isinstance(token, Mapping) or not isinstance(token.get("content"), str):
            raise refused(path, f"added_tokens[{index}]", token, "it must be an object with content and id")
        content, number = token["content"], _check_id(path, f"added_tokens[{index}].id", token.get("id"), entries)
        if ids.setdefault(content, number) != number:
            raise refused(path, f"the id of added token {shown(content)}", number, f"the vocabulary says {ids[content]}")
        if owners.setdefault(number, content) != content:
            raise refused(path, f"the id of added token {shown(content)}", number, f"{shown(owners[number])} has it, too")
    for field, content, given in _special(written.get("post_processor")):
        _check_id(path, field, given, entries)
        if ids.get(content, given) != given:
            raise refused(path, field, given, f"the vocabulary says {ids[content]}")
    for field, segment in _segments(written.get("post_processor")):
        if segments > 1 and (type(segment) is not int or not 0 <= segment < segments):
            raise refused(path, field, segment, f"the model has segments 0 to {segments - 1}")


def _vocabulary(path: Path, written: Any, entries: int) -> dict[str, int]:
    """Returns ids by piece."""
    if isinstance(written, Mapping):
        _check_ids(path, "model.vocab", written, entries)
        return dict(written)
    if not isinstance(written, list):
        raise refused(path, "model.vocab", written, "it must be an object of pieces and ids, or a list of pieces and scores")
    if len(written) > entries:
        raise refused(
            path, "the length of model.vocab", len(written), f"the model has {entries} entries; they don't belong together"
        )
    for index, entry in enumerate(written):
        pair = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)
        if not (pair and type(entry[1]) in (int, float) and math.isfinite(entry[1])):
            raise refused(path, f"model.vocab[{index}]", entry, "it must be a piece and its score")
    # If a piece occurs twice, its last id counts.
    return {piece: index for index, (piece, _) in enumerate(written)}


def _check_settings(path: Path, entries: int) -> None:
    """Checks a tokenizer_config.json."""
    if not path.is_file():
        return
    written = _read(path)
    longest = written.get("model_max_length")
    if longest is not None and not (type(longest) in (int, float) and not math.isnan(longest) and longest >= 1):
        raise refused(path, "model_max_length", longest, "allowed are numbers from 1")
    added = written.get("added_tokens_decoder")
    if added is not None and not isinstance(added, Mapping):
        raise refused(path, "added_tokens_decoder", added, "it must be an object of ids and tokens")
    for key in added or ():
        if not (key.isascii() and key.isdigit() and len(key) < 10 and int(key) < entries):
            raise refused(path, "a key of added_tokens_decoder", key, f"the model has ids 0 to {entries - 1}")


def _check_ids(path: Path, field: str, ids: Mapping[str, Any], entries: int) -> None:
    for piece, number in ids.items():
        # Inlined instead of _check_id, because there are up to a quarter of a million.
        if type(number) is not int or not 0 <= number < entries:
            raise refused(path, f"{field}[{shown(piece)}]", number, f"the model has ids 0 to {entries - 1}")


def _check_id(path: Path, field: str, number: object, entries: int) -> int:
    """Returns the number, if it is an id of the model."""
    if type(number) is not int or not 0 <= number < entries:
        raise refused(path, field, number, f"the model has ids 0 to {entries - 1}")
    return number


def _special(processor: Any) -> Iterator[tuple[str, str, object]]:
    """Yields the special tokens that a post-processor adds: their fields, texts and ids."""
    if not isinstance(processor, Mapping):
        return
    for inner in _objects(processor.get("processors")):
        yield from _special(inner)
    special = processor.get("special_tokens")
    for name, token in special.items() if isinstance(special, Mapping) else ():
        numbers = token.get("ids") if isinstance(token, Mapping) else None
        texts = token.get("tokens") if isinstance(token, Mapping) else None
        if not isinstance(numbers, list):
            yield f"post_processor.special_tokens[{shown(name)}].ids", name, numbers
            continue
        for place, number in enumerate(numbers):
            text = texts[place] if isinstance(texts, list) and place < len(texts) else name
            yield f"post_processor.special_tokens[{shown(name)}].ids[{place}]", str(text), number
    for key in ("sep", "cls"):
        token = processor.get(key)
        if isinstance(token, list) and len(token) == 2:
            yield f"post_processor.{key}[1]", str(token[0]), token[1]


def _segments(processor: Any) -> Iterator[tuple[str, object]]:
    """Yields the segments that a post-processor assigns to tokens."""
    if not isinstance(processor, Mapping):
        return
    for inner in _objects(processor.get("processors")):
        yield from _segments(inner)
    for template in ("single", "pair"):
        for index, part in enumerate(_objects(processor.get(template))):
            for value in part.values():
                if isinstance(value, Mapping) and "type_id" in value:
                    yield f"post_processor.{template}[{index}].type_id", value["type_id"]


def _objects(written: Any) -> Iterator[Mapping[str, Any]]:
    """Yields the objects in a list; nothing if it is no list."""
    yield from (one for one in written if isinstance(one, Mapping)) if isinstance(written, list) else ()


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        message = (
            f"{path} can't be read: {type(error).__name__}: {shown(str(error))}; it may have been cut short, copy it again"
        )
        raise unreadable(path.parent, message) from error
    if not isinstance(found, dict):
        raise refused(path, "its content", found, "it must be a JSON object")
    return found
