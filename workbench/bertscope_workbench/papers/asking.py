"""The means of a measure: the client, the models, the data, and how far it is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

from bertscope import BertscopeError, Client, Model

from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.published.kept_rows import KeptRows

T = TypeVar("T")


class Progress(Protocol):
    """Progress of a call about many texts, or of a training."""

    @property
    def done(self) -> int:
        """How much is done."""

    @property
    def total(self) -> int | None:
        """The whole; None if that is not known."""


OnStage = Callable[[int, int | None], object]
"""Hears how much of a test is done, and of how much; None if that is not known."""


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


@dataclass
class Asking:
    """The tests of one model. Answers that several tests need are asked for once."""

    client: Client
    model: Model
    """The model that claims are asked of."""
    data: Data = field(default_factory=Data)
    """Where items come from."""
    against: Model | None = None
    """A second model, for claims that compare two."""
    fine_tuned: Model | None = None
    """A fine-tuned copy of the model."""
    languages: tuple[str, ...] = ("en",)
    """The languages that the model reads, as ISO 639-1 codes; the first is that of claims about one language."""
    timeout: float | None = None
    """Seconds that an answer may take; the client's unless given."""
    on_stage: OnStage | None = None
    """Hears of progress within a test."""
    rejected: Rejected = field(default_factory=Rejected)
    """Texts that the server did not take, of the test that runs."""
    _kept: dict[str, Any] = field(default_factory=dict)
    _folder: TemporaryDirectory[str] | None = None

    @property
    def language(self) -> str:
        """The language of claims about one language."""
        return self.languages[0]

    def kept(self, key: str, make: Callable[[], T]) -> T:
        """Returns an answer that several tests need: made once."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments that the client's methods of many texts take beside their own: `on_progress`, `on_rejected`
        and `timeout`."""
        return {"on_progress": self.hear, "on_rejected": self.rejected, "timeout": self.timeout}

    def hear(self, progress: Progress) -> None:
        """Tells how far a call of the test is: an `on_progress`."""
        self.show(progress.done, progress.total)

    def show(self, done: int, total: int | None) -> None:
        """Tells how far the test is."""
        if self.on_stage is not None:
            self.on_stage(done, total)

    @property
    def rows(self) -> KeptRows:
        """The answers about items, as studies keep them: in a folder that does not stay."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="bertscope-")
        return KeptRows(self.client, Path(self._folder.name), self.timeout)

    def close(self) -> None:
        """Removes the folder."""
        if self._folder is not None:
            self._folder.cleanup()
