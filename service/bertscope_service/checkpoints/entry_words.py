"""Words as a vocabulary writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Word:
    """A word that may fill a mask, and the ids of its pieces. An answer has one object for each of its words.

    message: what replies say of it, serialised, once one does.
    """

    text: str
    pieces: tuple[int, ...]
    message: bytes = b""


class KeptWords(dict[int, Word]):
    """The words of entries, by their ids; each is made once, by `write`. `alike` are those among them whose text is another's,
    too. For use from any thread: each would make the same."""

    def __init__(self, write: Callable[[int], str]) -> None:
        self._write = write
        self._first: dict[str, int] = {}
        self.alike: set[int] = set()

    def __missing__(self, token: int) -> Word:
        word = Word(self._write(token), (token,))
        first = self._first.setdefault(word.text, token)
        if first != token:
            self.alike |= {first, token}
        self[token] = word  # last: who finds it can rely on `alike`
        return word
