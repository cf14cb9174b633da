"""Makes the tokenizer of ESM models, whose checkpoints have a vocabulary of amino acids and no tokenizer.json."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

KIND = "EsmTokenizer"
"""Class of transformers that reads such a vocabulary, one token a line, in Python."""


def is_amino_acids(tokenizer: Any) -> bool:
    """Checks that a tokenizer of transformers has a vocabulary of amino acids."""
    return type(tokenizer).__name__ == KIND


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
