"""Encodes texts with a tokenizer of the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Encoding, Tokenizer

LOCKED_CHARACTERS = 4000
"""Texts that become longer in all are tokenized without Python's lock, so that other threads go on. Shorter ones are planned on
the loop: a batch, however small, would wait there for threads of the library that tokenize another call's large one."""


def encode_texts(
    tokenizer: Tokenizer, inputs: Sequence[tuple[str, ...]], characters: int, *, special: bool = True, spans: bool = True
) -> list[Encoding]:
    """Returns the encodings of texts and pairs that become so many `characters`, with `special` tokens around them.

    spans: whether they say where each token stands in its text; a long batch without takes three quarters of the time.
    """
    if characters <= LOCKED_CHARACTERS:
        return [tokenizer.encode(text, pair[0] if pair else None, add_special_tokens=special) for text, *pair in inputs]
    encode = tokenizer.encode_batch if spans else tokenizer.encode_batch_fast
    # A tuple of one text would be read as a pair.
    return encode([texts[0] if len(texts) == 1 else texts for texts in inputs], add_special_tokens=special)
