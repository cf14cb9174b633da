"""Tries how much longer the steps of a tokenizer make texts, in a separate process, where they can do no harm."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from tokenizers import Tokenizer

from bertscope_service.checkpoints.tokenizer_growth import MAX_GROWTH, Step

REPEATS = 4
"""Each sample is tried so many times in a row: a blank in front of a text is no growth of its letters."""

LETTERS = (
    range(0x3400),
    range(0x3400, 0xF900, 64),
    range(0xF900, 0x10000),
    range(0x10000, 0x1D400, 64),
    range(0x1D400, 0x20000),
    range(0x20000, 0x110000, 64),
)
"""The code points that are tried: few of ideographs, Korean syllables and old scripts, of which many letters are alike."""

SAMPLE_LETTERS = 200
"""Longer texts of the steps are cut."""

Run: TypeAlias = Callable[[list[str]], list[str]]


def growth_task(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the largest growth of a sample in chains of steps, or the field, kind and growth of the step that exceeds the
    limit."""
    growth = 1.0
    for steps in request["chains"]:
        runs = [(field, step.get("type"), _run(part, step)) for part, field, step in steps]
        for sample in _samples(steps):
            pieces = [sample * REPEATS]
            size = REPEATS * len(unicodedata.normalize("NFKD", sample).encode("utf-8", "replace"))
            for field, kind, run in runs:
                # After each step, so that a chain of them ends before it has written gigabytes.
                pieces = run(pieces)
                grown = sum(map(len, pieces)) / size
                if grown > MAX_GROWTH:
                    return {"excess": [field, kind, grown]}
                growth = max(growth, grown)
    return {"growth": growth}


def _run(part: str, step: Mapping[str, Any]) -> Run:
    """Returns a function that runs a step on the pieces of a text. Raises what the library raises."""
    shell = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {}, "unk_token": ""}, part: step}
    tokenizer = Tokenizer.from_str(json.dumps(shell))
    if part == "normalizer":
        normalize = tokenizer.normalizer.normalize_str
        return lambda pieces: [normalize(piece) for piece in pieces]
    split = tokenizer.pre_tokenizer.pre_tokenize_str
    return lambda pieces: [part for piece in pieces for part, _ in split(piece)]


def _samples(steps: Sequence[Step]) -> Iterator[str]:
    """Yields the texts that the steps find and write, their letters, and the letters of all scripts."""
    texts = {text[:SAMPLE_LETTERS] for _, _, step in steps for text in _texts(step) if text}
    letters = {letter for text in texts for letter in text}
    yield from sorted(texts | letters)
    for letter in map(chr, chain.from_iterable(LETTERS)):
        if unicodedata.category(letter) not in ("Cn", "Co", "Cs"):  # no letter yet, private, half of one
            yield letter


def _texts(step: Mapping[str, Any]) -> Iterator[str]:
    """Yields the texts of a step, those of a pattern too; not a map, which is no text."""
    for key, value in step.items():
        found = value.values() if isinstance(value, Mapping) else (value,)
        yield from (text for text in found if isinstance(text, str) and key not in ("type", "precompiled_charsmap"))
