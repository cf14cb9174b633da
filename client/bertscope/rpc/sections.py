"""Texts that are too long for one call, and go in sections: how they are read, and how their answers are joined. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from bertscope.errors import InvalidArgument
from bertscope.rpc.splitting import OnRejected
from bertscope.values.messages import Asked, asked
from bertscope.values.validation import TextOrPair

WORD = re.compile(r"\w+|[^\w\s]")
"""A word, or a mark of its own: about the words of a tokenizer."""
TOKEN_BYTES = 4
"""About the bytes of a token."""
PART_WORK = 64 * 1024.0
"""A text with more work goes in several calls, of about 8,000 tokens each. A bert-base takes some 15 s for them on two
cores."""
EAGER_TEXTS = 256
"""The texts of a longer list are read as they are needed."""


class Section(Protocol):
    """The part of a text's work that one call does."""

    @property
    def number(self) -> int:
        """Index of the text among all."""

    @property
    def last(self) -> bool:
        """True for the last section of a text."""


class Answered(Protocol):
    """The answer about a section."""

    @property
    def section(self) -> Section:
        """The section."""


SectionT = TypeVar("SectionT", bound=Section)
Answer = TypeVar("Answer", bound=Answered)
Whole = TypeVar("Whole")


def row_work(text: TextOrPair) -> float:
    """Returns the estimated work of a row: twice the bytes of the text."""
    parts = (text,) if isinstance(text, str) else text
    return 2.0 * max(TOKEN_BYTES, sum(len(part.encode()) for part in parts))


def asked_in_sections(texts: Iterable[object], sections: Iterable[SectionT]) -> Asked[SectionT]:
    """Returns the sections of some texts. Those of a short list are made at once, all others as they are needed."""
    numbers = list[int]()
    return asked(texts, _numbered(sections, numbers), numbers, most=EAGER_TEXTS)


def _numbered(sections: Iterable[SectionT], numbers: list[int]) -> Iterator[SectionT]:
    for section in sections:
        numbers.append(section.number)
        yield section


class SectionAssembly(Generic[Answer, Whole]):
    """Joins the answers about the sections of each text. A text of which a section was rejected is left out."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []
        self._rejected: set[int] = set()

    def whole(self, answers: Sequence[Answer]) -> Whole:
        """Returns the answer about a text from those about its sections, in order."""
        raise NotImplementedError

    def rejecting(self, on_rejected: OnRejected | None) -> OnRejected | None:
        """Returns the same function, called once for each text, whatever number of its sections is rejected."""
        if on_rejected is None:
            return None

        def reject(index: int, error: InvalidArgument) -> None:
            if index not in self._rejected:
                self._rejected.add(index)
                on_rejected(index, error)

        return reject

    def add(self, answer: Answer) -> Whole | None:
        """Adds the answer about the next section. Returns that about the text if it is whole."""
        if self._answers and self._answers[-1].section.number != answer.section.number:
            self._answers = []
        self._answers.append(answer)
        if not answer.section.last or answer.section.number in self._rejected:
            return None
        found, self._answers = self._answers, []
        return self.whole(found)
