"""Declares the columns of a result's table once: for pandas, files, JSON, a terminal and a page."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """A column of a table."""

    name: str
    """Its name in `to_pandas`, in files and in JSON."""
    heading: str = ""
    """Its heading where people read it; the name with blanks unless given."""
    form: str = ""
    """How people read its numbers: a format (".3f"), "%" a share in percent, "+%" a difference of shares in points of 100."""
    unit: str = ""
    """The unit of its numbers, where the name does not say it: "nats"."""
    text: bool = False
    """True for a column of texts."""
    ends: tuple[str, str] | None = None
    """The columns with the ends of its interval, which stand beside it where people read it."""

    @property
    def is_range(self) -> bool:
        """True for a column that is the lower end of its own interval: people read the range alone."""
        return self.ends is not None and self.ends[0] == self.name

    @property
    def title(self) -> str:
        """The heading."""
        return self.heading or self.name.replace("_", " ")


def named(*names: str) -> tuple[Column, ...]:
    """Returns columns that need no more than their names."""
    return tuple(map(Column, names))
