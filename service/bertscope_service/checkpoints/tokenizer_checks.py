"""Checks a tokenizer against the model that it was found beside."""

from __future__ import annotations

from pathlib import Path

from bertscope_service.checkpoints.tokenizer import SAMPLE, TextTokenizer
from bertscope_service.checkpoints.tokenizer_growth import MAX_GROWTH
from bertscope_service.encoders.refusals import unreadable
from bertscope_service.errors import FailedPrecondition


def check_tokenizer(tokenizer: TextTokenizer, folder: Path, entries: int, segments: int) -> None:
    """Checks that a tokenizer works and fits a model with so many vocabulary `entries` and `segments`.

    `folder` is where it was read. Raises FailedPrecondition.
    """
    if tokenizer.size > entries:
        found = f"has {tokenizer.size} entries and the model {entries}"
        raise unreadable(folder, f"the tokenizer in {folder} {found}; they don't belong together")
    try:
        sample, pair = tokenizer.encode(SAMPLE), tokenizer.encode(SAMPLE, SAMPLE)
    except FailedPrecondition as error:
        why = f"can't be used: {error.metadata['error']}"
        raise unreadable(folder, f"the tokenizer in {folder} {why}; it needs a tokenizer.json that works") from error
    last = max(tokenizer.backend.get_vocab(with_added_tokens=True).values(), default=0)
    last = max(last, *sample.encoding.ids, *pair.encoding.ids)
    if last >= entries:
        found = f"gives id {last} and the model has 0 to {entries - 1}"
        raise unreadable(folder, f"the tokenizer in {folder} {found}; they don't belong together")
    segment = max(pair.sequence.segments, default=0)
    if 1 < segments <= segment:
        found = f"gives segment {segment} and the model has 0 to {segments - 1}"
        raise unreadable(folder, f"the tokenizer in {folder} {found}")
    if tokenizer.growth > MAX_GROWTH:
        message = f"the tokenizer in {folder} makes {tokenizer.growth} tokens of one letter; allowed are {MAX_GROWTH}"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder, field="post_processor", growth=tokenizer.growth)
    around = tokenizer.special_tokens(pair=False)
    if tokenizer.max_tokens <= around:
        found = f"gives {around} special tokens around a text, and the model reads {tokenizer.max_tokens}"
        raise unreadable(folder, f"the tokenizer in {folder} {found}")
