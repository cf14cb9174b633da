"""Reads the streams of answers that analyses are made of."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TypeVar

from bertscope.rpc.async_many_texts import OnTexts
from bertscope.values.results import TextsProgress

Answer = TypeVar("Answer")


def answers_of(stream: Generator[Answer, None, None], total: int, on_progress: OnTexts | None) -> Iterator[Answer]:
    """Yields the answers of a stream about so many texts, and tells of each when it has been used. The stream is closed at the
    end, whatever ends this."""
    with closing(stream):
        for done, answer in enumerate(stream, start=1):
            yield answer
            if on_progress is not None:
                on_progress(TextsProgress(done, total))
