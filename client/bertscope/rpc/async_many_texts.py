"""Sends any number of texts: a few calls at a time, answers in order."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from google.protobuf.message import Message

from bertscope.errors import BertscopeError, InvalidArgument, invalid_argument
from bertscope.rpc.async_connection import AsyncConnection
from bertscope.rpc.pacing import Pace, text_work
from bertscope.rpc.splitting import CALLS_UNDER_WAY, OnRejected, Part, Parts
from bertscope.rpc.tasks import Call, cancel_all, sleep
from bertscope.values.messages import Asked
from bertscope.values.results import TextsProgress
from bertscope.values.validation import TextOrPair

OnTexts = Callable[[TextsProgress], object]


class CountsTexts(Protocol):
    """A result that says how many texts it is about."""

    @property
    def texts(self) -> int:
        """The texts."""


Item = TypeVar("Item")
Summand = TypeVar("Summand", bound=CountsTexts)
Answer = TypeVar("Answer")
Reply = TypeVar("Reply", bound=Message)
"""A message with a field `provenance`."""


class _Sent(NamedTuple, Generic[Item, Reply]):
    """A call that runs. `work` is that of all calls that ran when it began, its own included."""

    part: Part[Item]
    call: Call[Reply]
    work: float


class _Running(Generic[Item, Reply]):
    """The calls that run, in the order of their texts."""

    def __init__(self, call: Callable[[Sequence[Item]], Call[Reply]]) -> None:
        """`call` makes the call about some texts."""
        self._call = call
        self._calls: deque[_Sent[Item, Reply]] = deque()
        self._width = CALLS_UNDER_WAY

    def fill(self, parts: Parts[Item]) -> bool:
        """Begins calls as long as there are texts and not too many calls run. Returns whether any runs."""
        while len(self._calls) < min(self._width, parts.width) and (part := parts.take()) is not None:
            self._calls.append(self._sent(part, parts))
            self._calls[-1].call.begin()  # Noted first, so that nothing keeps it from being cancelled.
        return bool(self._calls)

    def _sent(self, part: Part[Item], parts: Parts[Item]) -> _Sent[Item, Reply]:
        work = parts.work(part) + sum(parts.work(sent.part) for sent in self._calls)
        return _Sent(part, self._call(part.items), work)

    async def first(self, parts: Parts[Item], attempts: int) -> tuple[Part[Item], Reply] | None:
        """Waits for the first call. Returns its texts and its reply; None if the server rejected it and it will be repeated."""
        part, call, work = self._calls[0]
        try:
            response = await call.result()
            sourced: Any = response
            parts.check_weights(part.start, sourced.provenance.weights_digest)
        except BertscopeError as error:
            self._calls.popleft()
            rest = parts.without_rejected(part, error)
            if rest is None:
                await self._repeat(parts, *parts.refused(part, error, attempts))
            else:
                self._begin_first(rest, parts)
            return None
        self._calls.popleft()
        parts.answered(call.seconds, work)
        return part, response

    async def _repeat(self, parts: Parts[Item], pieces: Sequence[Part[Item]], seconds: float) -> None:
        """Repeats the texts of a rejected call after a delay, or, if the call was too large, divides all that run."""
        if len(pieces) == 1:  # The server is too busy: only the running calls continue.
            self._width = max(1, len(self._calls))
            await sleep(seconds)
            self._begin_first(pieces, parts)
            return
        await self.cancel()  # They are as large.
        parts.put_back([*pieces, *(later.part for later in self._calls)])
        self._calls.clear()

    def _begin_first(self, pieces: Sequence[Part[Item]], parts: Parts[Item]) -> None:
        """Begins calls that come before those that run."""
        for piece in reversed(pieces):
            self._calls.appendleft(self._sent(piece, parts))
            self._calls[0].call.begin()

    async def cancel(self) -> None:
        """Cancels all calls."""
        await cancel_all([sent.call for sent in self._calls])


class AsyncManyTexts(AsyncConnection):
    """Calls about any number of texts."""

    async def _answers(
        self,
        asked: Asked[Item],
        build: Callable[[Sequence[Item]], Message],
        reply: type[Reply],
        read: Callable[[Sequence[Item], Reply], Iterable[Answer]],
        timeout: float | None,
        *,
        large: bool = False,
        pace: Pace[Item] | None = None,
        on_rejected: OnRejected | None = None,
    ) -> AsyncGenerator[Answer, None]:
        """Yields the answers to all texts, in order. However it ends, no call stays under way.

        `build` makes the request about some texts, and `read` the answers of its reply. `large` calls are worth more than quick
        ones, unless a `pace` says how large they are. Texts that the server rejects are left out if `on_rejected` is to be told
        about them.
        """
        parts = Parts(
            asked.items, asked.total, self._limit, large=large, pace=pace, on_rejected=on_rejected, numbers=asked.numbers
        )
        attempts, done = self._retries.attempts, 0
        only = parts.only()
        if only is not None:
            try:
                response = await self._call(build(only.items), reply, timeout)
            except BertscopeError as error:
                rest = parts.without_rejected(only, error)
                parts.put_back(parts.refused(only, error, attempts)[0] if rest is None else rest)
            else:
                for answer in read(only.items, response):
                    yield answer
                return
        running: _Running[Item, Reply] = _Running(lambda items: self._one_of_many(build(items), reply, timeout))
        try:
            while running.fill(parts):
                answered = await running.first(parts, attempts)
                if answered is not None:
                    part, response = answered
                    done = part.numbers.stop
                    for answer in read(part.items, response):
                        yield answer
            parts.end()
        except BertscopeError as error:
            error.answered = done if asked.numbers is None or done >= len(asked.numbers) else asked.numbers[done]
            raise
        finally:
            await running.cancel()

    def _pace(self, text: Callable[[Item], TextOrPair], reference_texts: Iterable[str], timeout: float | None) -> Pace[Item]:
        """Returns the pace of calls whose answers add up. `text` returns an item's text."""
        return self._pace_by(lambda item: text_work(text(item)), reference_texts, timeout)

    def _pace_by(
        self,
        work: Callable[[Item], float],
        reference_texts: Iterable[str],
        timeout: float | None,
        kind: type[Pace[Item]] = Pace,
    ) -> Pace[Item]:
        """Does the same as `_pace`, by the estimated work of an item."""
        return kind(work, self._seconds(timeout), reference_texts, width=CALLS_UNDER_WAY)

    async def _sum(
        self,
        answers: AsyncGenerator[Summand, None],
        merge: Callable[[Sequence[Summand]], Summand],
        total: int | None,
        on_progress: OnTexts | None,
    ) -> Summand:
        """Returns the sum of all answers, one for each call; reports the number of texts, of `total`, after each. An error gets
        the sum of the answers before it, as `partial`."""
        whole: Summand | None = None
        async with aclosing(answers):
            try:
                async for part in answers:
                    whole = part if whole is None else merge([whole, part])
                    if on_progress is not None:
                        on_progress(TextsProgress(whole.texts, total))
            except BertscopeError as error:
                error.partial = whole
                raise
        if whole is None:
            raise every_text_rejected()
        return whole


def every_text_rejected() -> InvalidArgument:
    """Returns the error of a call that has nothing to answer."""
    return invalid_argument("inputs", "every text was rejected; correct what `on_rejected` was told")
