"""Counts texts that the server does not take."""

from dataclasses import dataclass

from bertscope import BertscopeError


@dataclass
class Rejected:
    """Texts that the server can't read."""

    count: int = 0
    first: str = ""

    def __call__(self, index: int, error: BertscopeError) -> None:
        """Notes one: an `on_rejected`."""
        self.count += 1
        self.first = self.first or error.message

    def lines(self, what: str = "texts") -> list[str]:
        """Returns a line, unless there is none."""
        return [f"{self.count} {what} that the server did not take; the first: {self.first}"] if self.count else []
