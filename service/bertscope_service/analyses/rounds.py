"""Plans of several rounds: the rows of a round depend on the results of the one before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence

Rows = list[tuple[TokenSequence, Observer]]


class Rounds(ABC):
    """A plan whose rows are made round by round. It holds what it has found so far.

    >>> while plan.rows:
    ...     plan.advance(await engine.run(plan.rows, ...))
    """

    rows: Rows
    """The rows of the round that is to run; empty after the last one."""

    @abstractmethod
    def advance(self, results: Sequence[Any]) -> None:
        """Takes one result for each of `rows`, and replaces `rows` by those of the next round."""
