"""Words with two senses in sentences of our own."""

import re
import tomllib

from bertscope.values.display import record

from bertscope_workbench.papers.items import shipped


@record
class SenseUse:
    """A word in a sentence, with its sense."""

    word: str
    sense: str
    text: str
    """The sentence."""
    start: int
    """First code point of the word."""
    end: int
    """One past its last."""


def sense_uses() -> list[SenseUse]:
    """Returns 240 sentences: 24 words in two senses, five of each. Raises ValueError for a sentence without its word."""
    read = tomllib.loads(shipped("senses.toml").read_text("utf-8"))
    return [
        _use(word, sense, line.strip())
        for word, senses in read.items()
        for sense, lines in senses.items()
        for line in lines.splitlines()
    ]


def _use(word: str, sense: str, text: str) -> SenseUse:
    found = list(re.finditer(rf"\b{word}\b", text))
    if len(found) != 1:
        raise ValueError(f"{text!r} has {word!r} {len(found)} times; it must stand there once")
    return SenseUse(word, sense, text, *found[0].span())
