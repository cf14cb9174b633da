"""Bounds how much longer a tokenizer makes texts, before it reads one.

A tokenizer.json may name steps that write a thousand letters for one, and ten of them in a row: a text of one word then takes
gigabytes and minutes, in a library that can't be told to stop. Steps of `KNOWN` kinds can't: each of them writes a letter's
Unicode form, its bytes, or a blank beside it, and none is there twice. Nor can a replacement that is no longer than what it
replaces. A tokenizer with any other step is tried letter by letter in a separate process; see `tokenizer_trial`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from tokenizers import Tokenizer

from bertscope_service.encoders.onnx.helper_process import helper
from bertscope_service.encoders.refusals import shown
from bertscope_service.errors import FailedPrecondition

MAX_GROWTH = 18
"""The most letters that steps may write for a byte of a text: as many as Unicode's longest form of one letter has."""

TRIAL_SECONDS = 20.0
"""The time of a trial, which takes some tenths of a second."""

MAX_STEPS = 20
"""The most steps of known kinds that need no trial: each of them takes time for every text."""

KNOWN = {
    *("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Strip", "StripAccents"),
    *("BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "Metaspace", "Punctuation", "UnicodeScripts"),
    *("Whitespace", "WhitespaceSplit"),
}

INNER = ("normalizers", "pretokenizers", "decoders")
"""Names of the lists of steps in a step."""

Step: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""A step: "normalizer" or "pre_tokenizer", by which the library reads it; its field in a tokenizer.json; what that says."""

Parts: TypeAlias = Mapping[str, Any]
"""The normalizer, pre_tokenizer and decoder of a tokenizer, as in a tokenizer.json."""


def parts_in(file: Path) -> Parts:
    """Returns the parts that a tokenizer.json says; none if there is no such file. Raises OSError, ValueError."""
    written = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {part: written.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")}


def parts_of(tokenizer: Tokenizer) -> Parts:
    """Returns the parts of a tokenizer."""
    parts = {"normalizer": tokenizer.normalizer, "pre_tokenizer": tokenizer.pre_tokenizer, "decoder": tokenizer.decoder}
    return {name: None if part is None else json.loads(part.__getstate__()) for name, part in parts.items()}


def check_growth(folder: Path, parts: Parts, check: Callable[[], None] = lambda: None) -> float:
    """Returns the most letters that a tokenizer's steps write for a byte of a text, at least 1: for single letters, and for the
    texts that the steps find and write. `folder` is where it is, for errors; `check` is called during a trial and may raise.

    Raises FailedPrecondition, naming the step, for a tokenizer that writes more than `MAX_GROWTH`, and for one whose trial
    crashes or does not end; HelperError for one whose trial fails.
    """
    texts = [*_steps("normalizer", parts.get("normalizer")), *_steps("pre_tokenizer", parts.get("pre_tokenizer"))]
    # A replacement is the only step of a decoder that writes more than it reads.
    decoder = [("normalizer", field, step) for _, field, step in _steps("decoder", parts.get("decoder")) if "pattern" in step]
    chains = [chain for chain in (texts, decoder) if not _known(chain)]
    for _, field, step in (step for chain in chains for step in chain):
        if (factor := _declared(step)) > MAX_GROWTH:
            raise _grows(folder, field, step.get("type"), factor)
    if not chains:
        return 1.0
    found = helper.call("tokenize", {"chains": chains}, check=check, seconds=TRIAL_SECONDS)
    if "excess" in found:
        raise _grows(folder, *found["excess"])
    return float(found["growth"])


def _grows(folder: Path, field: str, kind: object, factor: float) -> FailedPrecondition:
    what, growth = f"the tokenizer in {folder} makes texts", f"{factor:.0f}"
    message = f"{what} {growth} times as long by its {field} ({shown(kind)}); allowed are {MAX_GROWTH} times: let it write less"
    return FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder, field=field, growth=growth)


def _steps(part: str, written: Any) -> Iterator[Step]:
    """Yields the steps of a part, in order."""
    waiting = [(part, written)]
    while waiting:
        field, step = waiting.pop()
        if not isinstance(step, Mapping):
            continue  # none, or nothing that the library reads
        inner = next((key for key in INNER if isinstance(step.get(key), list)), None)
        if inner is None:
            yield part, field, step
        else:
            waiting += reversed([(f"{field}.{inner}[{index}]", one) for index, one in enumerate(step[inner])])


def _known(steps: list[Step]) -> bool:
    """Returns whether steps can't write much more than they read; see the module."""
    kinds = [step.get("type") for _, _, step in steps if not (_literal(step) and _declared(step) <= 1)]
    return len(steps) <= MAX_STEPS and len(kinds) == len({*kinds}) and KNOWN.issuperset(kinds)


def _declared(step: Mapping[str, Any]) -> float:
    """Returns the most letters that a step may write for one that it reads, if it writes one of its own texts."""
    content, charsmap = step.get("content"), step.get("precompiled_charsmap")
    if isinstance(charsmap, str):
        return _longest(charsmap)
    # What a regular expression finds may be one letter.
    return len(content) / max(1, len(_literal(step))) if isinstance(content, str) else 1.0


def _literal(step: Mapping[str, Any]) -> str:
    """Returns the text that a step replaces, "" if it is none or the step finds it by an expression."""
    pattern = step.get("pattern")
    found = pattern.get("String") if isinstance(pattern, Mapping) else None
    return found if isinstance(found, str) else ""


def _longest(charsmap: str) -> int:
    """Returns the letters of the longest text in a map of sentencepiece: the length of its trie in 4 bytes, the trie, and the
    texts, each ended by a zero byte. 1 for a damaged one, which the library refuses."""
    try:
        content = base64.b64decode(charsmap)
    except ValueError:
        return 1
    texts = content[4 + int.from_bytes(content[:4], "little") :].split(b"\0")
    return max(len(text.decode(errors="replace")) for text in texts)
