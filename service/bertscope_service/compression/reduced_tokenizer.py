"""The pieces that a vocabulary can lose, and a tokenizer without them.

A tokenizer is a dict as in tokenizer.json, written by `tokenizers`. The reduced one splits the counted texts as the whole one
did (with a `min_count` of 1): it has the pieces of their words, no new longer ones, and the intermediate pieces of byte-pair
encoding.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from bertscope_service.checkpoints.steps import Applied
from bertscope_service.errors import Unsupported

ENCODED_TEXTS = 1000
"""Number of texts that are tokenized at a time."""
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A piece for a byte of a character without a piece."""

Vocabulary = Mapping[str, int]


def count_pieces(tokenizer: Tokenizer, texts: Sequence[str], report: Callable[[], None]) -> Counter[int]:
    """Counts each piece in some texts; `report` is called regularly."""
    counts: Counter[int] = Counter()
    for begin in range(0, len(texts), ENCODED_TEXTS):
        report()
        for encoding in tokenizer.encode_batch(list(texts[begin : begin + ENCODED_TEXTS]), add_special_tokens=False):
            counts.update(encoding.ids)
    return counts


def check_reducible(written: Mapping[str, Any]) -> None:
    """Raises Unsupported for a kind of vocabulary whose pieces can't be removed."""
    model = written["model"]
    affixes = model["type"] == "BPE" and (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"))
    if model["type"] not in KINDS or affixes:
        kind = f"{model['type']} with affixes" if affixes else model["type"]
        message = f"the vocabulary is {kind}; pieces can be removed from WordPiece, byte-pair and Unigram vocabularies"
        raise Unsupported(message, "VOCABULARY_UNSUPPORTED", kind=kind)


def needed_pieces(written: Mapping[str, Any], counts: Counter[int], min_count: int) -> list[int]:
    """Returns the ids of the pieces that stay, ascending: frequent, special and added ones, and single characters.

    Further pieces stay if some text could no longer be written without them.
    """
    model, added = written["model"], written["added_tokens"]
    vocabulary = vocabulary_of(written)
    kept = {piece for piece, number in vocabulary.items() if counts[number] >= min_count or BYTE.fullmatch(piece)}
    kept |= {str(model["unk_token"])} & vocabulary.keys() if model.get("unk_token") else set()
    if model["type"] == "Unigram" and model.get("unk_id") is not None:
        kept.add(str(model["vocab"][model["unk_id"]][0]))
    kept |= KINDS[model["type"]](model, vocabulary, kept)
    names = {str(token["content"]) for token in added}
    others = {int(token["id"]) for token in added} | {*_processor_ids(written.get("post_processor"))}
    if written.get("padding"):
        others.add(int(written["padding"]["pad_id"]))
    return sorted({vocabulary[piece] for piece in kept | (names & vocabulary.keys())} | others)


def without_others(written: Mapping[str, Any], kept: Sequence[int]) -> dict[str, Any]:
    """Returns the tokenizer with only some pieces, numbered anew in the same order."""
    reduced = copy.deepcopy(dict(written))
    numbers = {old: new for new, old in enumerate(kept)}
    model, vocabulary = reduced["model"], vocabulary_of(written)
    if model["type"] == "Unigram":
        model["vocab"] = [entry for number, entry in enumerate(model["vocab"]) if number in numbers]
        model["unk_id"] = None if model.get("unk_id") is None else numbers[model["unk_id"]]
    else:
        model["vocab"] = {piece: numbers[number] for piece, number in vocabulary.items() if number in numbers}
    if "merges" in model:
        parts = ((merge, _pair(merge)) for merge in model["merges"])
        left = model["vocab"]
        model["merges"] = [merge for merge, (a, b) in parts if a in left and b in left and a + b in left]
    for token in reduced["added_tokens"]:
        token["id"] = numbers[token["id"]]
    _renumber(reduced.get("post_processor"), numbers)
    if reduced.get("padding"):
        reduced["padding"]["pad_id"] = numbers[reduced["padding"]["pad_id"]]
    return reduced


def vocabulary_of(written: Mapping[str, Any]) -> dict[str, int]:
    """Returns ids by piece, without added ones."""
    model = written["model"]
    if model["type"] == "Unigram":
        return {str(entry[0]): number for number, entry in enumerate(model["vocab"])}
    return {str(piece): int(number) for piece, number in model["vocab"].items()}


def describe(before: int, after: int, texts: int) -> Applied:
    """Describes the step."""
    words = f"kept {after} of {before} pieces of the vocabulary, those that {texts} texts need"
    return Applied("vocabulary", words, {"pieces_before": before, "pieces_after": after})


def _word_pieces(model: Mapping[str, Any], vocabulary: Vocabulary, _: Collection[str]) -> set[str]:
    """Returns the required pieces. Characters have two kinds of pieces: one that begins a word, and one that continues it."""
    prefix = str(model.get("continuing_subword_prefix") or "")

    def characters(piece: str) -> Iterable[str]:
        inside = bool(prefix) and piece.startswith(prefix) and len(piece) > len(prefix)
        body = piece[len(prefix) :] if inside else piece
        return (character if not (inside or place) else prefix + character for place, character in enumerate(body))

    return _spellable(vocabulary, characters)


def _unigram_pieces(model: Mapping[str, Any], vocabulary: Vocabulary, _: Collection[str]) -> set[str]:
    """Returns the required pieces, with the least likely one: the cost of unknown characters depends on it."""
    least = min(model["vocab"], key=lambda entry: float(entry[1]))
    return _spellable(vocabulary, lambda piece: piece) | {str(least[0])}


def _byte_pairs(model: Mapping[str, Any], vocabulary: Vocabulary, kept: Collection[str]) -> set[str]:
    """Returns single characters, and all intermediate pieces of those that stay."""
    ways: dict[str, list[tuple[str, str]]] = {}
    for merge in model["merges"]:
        a, b = _pair(merge)
        ways.setdefault(a + b, []).append((a, b))
    found = {piece for piece in vocabulary if len(piece) == 1}
    waiting = [*kept]
    while waiting:
        piece = waiting.pop()
        for part in (part for way in ways.get(piece, ()) for part in way):
            if part not in found:
                found.add(part)
                waiting.append(part)
    return found & vocabulary.keys()


def _spellable(vocabulary: Vocabulary, characters: Callable[[str], Iterable[str]]) -> set[str]:
    """Returns pieces that are a single character, and those with a character that has no such piece."""
    single = {piece for piece in vocabulary if [*characters(piece)] == [piece]}
    return {piece for piece in vocabulary if piece in single or not single.issuperset(characters(piece))}


def _pair(merge: Any) -> tuple[str, str]:
    """Splits a merge, written as "a b" or as ["a", "b"]."""
    a, b = merge.split(" ", 1) if isinstance(merge, str) else merge
    return str(a), str(b)


def _processor_ids(processor: Any) -> Iterator[int]:
    """Yields the ids of the special tokens that a post-processor adds."""
    if not isinstance(processor, dict):
        return
    for inner in processor.get("processors", ()):
        yield from _processor_ids(inner)
    if processor["type"] == "TemplateProcessing":
        for token in processor["special_tokens"].values():
            yield from map(int, token["ids"])
    yield from (int(processor[name][1]) for name in ("sep", "cls") if name in processor)


def _renumber(processor: Any, numbers: Mapping[int, int]) -> None:
    """Gives a post-processor the new ids of its special tokens, in place."""
    if not isinstance(processor, dict):
        return
    for inner in processor.get("processors", ()):
        _renumber(inner, numbers)
    if processor["type"] == "TemplateProcessing":
        for token in processor["special_tokens"].values():
            token["ids"] = [numbers[number] for number in token["ids"]]
    for name in ("sep", "cls"):
        if name in processor:
            processor[name] = [processor[name][0], numbers[processor[name][1]]]


KINDS: dict[str, Callable[[Mapping[str, Any], Vocabulary, Collection[str]], set[str]]] = {
    "WordPiece": _word_pieces,
    "BPE": _byte_pairs,
    "Unigram": _unigram_pieces,
}
"""The function for each kind of vocabulary that returns the required pieces besides the kept ones."""
