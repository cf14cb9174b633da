"""Makes the tokenizer of ESM models, whose checkpoints have a vocabulary of amino acids and no tokenizer.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from bertscope_service.encoders.refusals import refused

FILE = "vocab.txt"
KIND = "EsmTokenizer"
"""Class of transformers that reads such a vocabulary, one token a line, in Python."""


def is_amino_acids(tokenizer: Any) -> bool:
    """Checks that a tokenizer of transformers has a vocabulary of amino acids."""
    return type(tokenizer).__name__ == KIND


def check_amino_acids(tokenizer: Any, folder: Path) -> None:
    """Checks the vocabulary of amino acids in a folder: its special tokens must be there, each entry once, and at the ids that
    config.json names. A file that lost a line, or is doubled, would give other letters' answers.

    Raises FailedPrecondition; OSError.
    """
    path = folder / FILE
    entries = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    places = {entry: number for number, entry in enumerate(entries)}
    if len(places) < len(entries):
        entry, number = next((entry, number) for number, entry in enumerate(entries) if places[entry] != number)
        again = f"line {places[entry] + 1} has it again; list each entry once"
        raise refused(path, f"line {number + 1}", entry, again)
    for name in ("cls", "eos", "unk", "pad"):
        token = getattr(tokenizer, f"{name}_token")
        if token not in places:
            raise refused(path, "its content", f"without {token}", "list all special tokens, one entry a line")
    if not any(len(entry) == 1 for entry in entries):
        raise refused(path, "its content", "without a letter", "list the amino acids, one a line")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name in ("pad", "mask"):
        token, wanted = getattr(tokenizer, f"{name}_token"), config.get(f"{name}_token_id")
        if isinstance(wanted, int) and places.get(token, wanted) != wanted:
            says = f"config.json says {wanted}; the file may have lost lines, copy it again"
            raise refused(path, f"the id of {token}", places[token], says)


def backend_of(tokenizer: Any) -> Tokenizer:
    """Returns a tokenizer that splits sequences as transformers' own does: each letter is a token, and spaces mean nothing.

    Longer entries of the vocabulary are tokens wherever they are written, such as <mask>.
    """
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=tokenizer.unk_token))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), "isolated")]
    )
    backend.decoder = decoders.Fuse()
    longer = sorted((text for text in vocabulary if len(text) > 1), key=vocabulary.__getitem__)
    backend.add_special_tokens([AddedToken(text, special=True, lstrip=True, rstrip=True) for text in longer])
    start, end = tokenizer.cls_token, tokenizer.eos_token
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B {end}",
        special_tokens=[(start, vocabulary[start]), (end, vocabulary[end])],
    )
    return backend
