# Generated from bertscope/rpc/async_streams.py. Do not edit: change that file, and run `make client`.
"""Reads streams: items that make a whole at their end, or progress that ends with a result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from inspect import cleandoc, signature
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

from bertscope.errors import BertscopeError, Cancelled, InvalidReply
from bertscope.rpc.threads import Later

Calls = TypeVar("Calls")
Method = TypeVar("Method", bound=Callable[..., Any])
Arguments = ParamSpec("Arguments")
Message = TypeVar("Message")
TakenMessage = TypeVar("TakenMessage", contravariant=True)
Item = TypeVar("Item")
GivenItem = TypeVar("GivenItem", covariant=True)
Whole = TypeVar("Whole")
GivenWhole = TypeVar("GivenWhole", covariant=True)
Start = TypeVar("Start")
GivenStart = TypeVar("GivenStart", covariant=True)
Progress = TypeVar("Progress")
Result = TypeVar("Result")


def collected(stream: Generator[Item, None, None], make: Callable[[list[Item]], Whole]) -> Whole:
    """Returns what all items of a stream make. An error gets what the items before it make, as `partial`."""
    found: list[Item] = []
    with closing(stream):
        try:
            for item in stream:
                found += [item]
        except BertscopeError as error:
            error.partial = make(found) if found else None
            raise
    return make(found)


def joined(answers: Generator[Item, None, None], add: Callable[[Item], Whole | None]) -> Generator[Whole, None, None]:
    """Yields what answers make together, as soon as `add` gives it."""
    with closing(answers):
        for answer in answers:
            found = add(answer)
            if found is not None:
                yield found


def whole(
    method: Callable[Concatenate[Calls, Arguments], Generator[Item, None, None]], make: Callable[[list[Item]], Whole]
) -> Callable[Concatenate[Calls, Arguments], Later[Whole]]:
    """Returns the method that has the arguments of a streaming one, `NAME_stream`, and returns what all its answers make."""

    def asked(self: Calls, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Whole:
        return collected(method(self, *args, **kwargs), make)

    kind = make.__name__ if isinstance(make, type) else make.__annotations__["return"]
    return _described(asked, method, method.__name__.removesuffix("_stream"), kind)


def _described(asked: Method, method: Callable[..., Any], name: str, kind: str) -> Method:
    """Returns a method with the signature and the docstring of the streaming one whose whole, of this kind, it gives."""
    once = f"All answers come at once, as {kind}; `{method.__name__}` gives them one by one, as they come."
    prose, heading, listed = cleandoc(method.__doc__ or "").partition("\n\nArguments:\n")
    asked.__module__, asked.__doc__ = method.__module__, f"{prose}\n\n{once}{heading}{listed}"
    asked.__name__, asked.__qualname__ = name, f"{method.__qualname__.rpartition('.')[0]}.{name}"
    setattr(asked, "__signature__", signature(method).replace(return_annotation=kind))  # noqa: B010  # types know none
    return asked


class Assembler(Protocol[TakenMessage, GivenItem, GivenWhole]):
    """The state of one stream: messages in, items out, and the whole at the end."""

    def add(self, message: TakenMessage) -> GivenItem | None:
        """Processes one message and returns its item, if it has one."""

    def end(self) -> GivenWhole:
        """Returns the whole. Raises InvalidReply if the stream ended before it was complete."""


class Reading(Iterator[Item], Generic[Item, Whole]):
    """A stream that is read with `for`; a context manager, which cancels the call at its end."""

    what = "stream"
    """The stream in one word, for messages."""

    def __init__(self, assembler: Assembler[Message, Item, Whole], messages: Generator[Message, None, None]) -> None:
        self._whole: Whole | None = None
        self._failure: BertscopeError | None = None
        self._events = self._read(assembler, messages)

    def table(self) -> Whole:
        """Returns the whole, including items read before; waits for the rest. Raises Cancelled if it was closed."""
        for _ in self:
            pass
        if self._whole is None:
            raise self._why_not()
        return self._whole

    def close(self) -> None:
        """Cancels the call if it still runs."""
        self._events.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: a stream, to be read with `for`, or as a whole by table()>"

    def __next__(self) -> Item:
        for item in self._events:
            if item is not None:
                return item
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _why_not(self) -> BertscopeError:
        """Returns the error of a stream that ended early."""
        return self._failure or Cancelled(f"the {self.what} was closed before it ended")

    def _read(
        self, assembler: Assembler[Message, Item, Whole], messages: Generator[Message, None, None]
    ) -> Generator[Item | None, None, None]:
        try:
            with closing(messages):
                for message in messages:
                    yield assembler.add(message)
            self._whole = assembler.end()
        except BertscopeError as error:
            self._failure = error
            raise


class PartialAssembler(
    Assembler[TakenMessage, GivenItem, GivenWhole], Protocol[TakenMessage, GivenItem, GivenWhole, GivenStart]
):
    """The state of a stream whose items so far are worth something."""

    @property
    def start(self) -> GivenStart | None:
        """The facts that are known before the first item; None until they have come."""

    def partial(self, why: str) -> GivenWhole | None:
        """Returns what the items so far make, cut short for a reason; None if there are none."""


class Resumable(Reading[Item, Whole], Generic[Item, Whole, Start]):
    """A stream that another one can go on with, from what came of it."""

    def __init__(
        self, assembler: PartialAssembler[Message, Item, Whole, Start], messages: Generator[Message, None, None]
    ) -> None:
        self._assembler: PartialAssembler[Any, Item, Whole, Start] = assembler
        super().__init__(assembler, messages)

    def partial(self, why: str | None = None) -> Whole:
        """Returns what has come so far, whatever ended the stream: an error, `close`, Ctrl-C; the whole if it is complete.

        `why` becomes its `interrupted`; the error that ended the stream unless given. `start_from` resumes it. Raises that
        error if nothing has come that can be resumed.
        """
        if self._whole is not None:
            return self._whole
        reason = self._why_not()
        found = self._assembler.partial(str(reason) if why is None else why)
        if found is None:
            raise reason
        return found

    @property
    def start(self) -> Start:
        """The facts that are known before anything is changed, the baseline and the counts; waits until they have come."""
        while self._assembler.start is None:
            try:
                next(self._events)
            except StopIteration:
                raise self._why_not() from None
        return self._assembler.start


def gathered(
    method: Callable[Concatenate[Calls, Arguments], Reading[Item, Whole]], name: str, kind: type[Whole]
) -> Callable[Concatenate[Calls, Arguments], Later[Whole]]:
    """Returns the method `name`, which has the arguments of one that gives a stream to read, and returns the whole of it."""

    def asked(self: Calls, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Whole:
        with method(self, *args, **kwargs) as reading:
            return reading.table()

    return _described(asked, method, name, kind.__name__)


def last(
    messages: Generator[Message, None, None],
    read: Callable[[Message], Progress | Result | None],
    on_progress: Callable[[Progress], object] | None,
    result: type[Result],
    lacking: str,
) -> Result:
    """Returns the result that a call ends with, after passing all progress to `on_progress`.

    An exception in `on_progress` ends the call. Messages that `read` makes None of are ignored. Raises InvalidReply, saying
    what is `lacking`, if the last event is not a result.
    """
    found: Progress | Result | None = None
    with closing(messages):
        for message in messages:
            event = read(message)
            found = found if event is None else event
            if on_progress and event is not None and not isinstance(event, result):
                on_progress(cast("Progress", event))
    if not isinstance(found, result):
        raise InvalidReply(f"the server ended the {lacking}")
    return found
