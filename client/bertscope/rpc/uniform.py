"""Declares calls of four shapes: one answer for each item, sums over all items, training, and tensors of each item.

A declaration is a method without a body, in a class of a module `questions/ROOM/uniform.py`. It has the arguments that
the contract does not tell, the docstring, and as its result the answer to an item, or the sum. `make client` makes
`calls.py` of it, with the methods of the asynchronous client. They have an argument for every field of the request that is
not read from the items: see tools/uniform_calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from bertscope.rpc.async_many_texts import CountsTexts
from bertscope.rpc.pacing import Pace
from bertscope.rpc.sections import SectionAssembly
from bertscope.values.messages import Asked
from bertscope.values.validation import TextOrPair

Item = TypeVar("Item")
Sum = TypeVar("Sum", bound=CountsTexts)
Method = TypeVar("Method", bound=Callable[..., Any])


def each(
    asked: Callable[..., Asked[Item]],
    read: Callable[..., Iterable[Any]],
    whole: Callable[[list[Any]], Any],
    *,
    build: Callable[[Any, Sequence[Item]], Message] | None = None,
    text: Callable[[Item], TextOrPair] | None = None,
    work: Callable[[Item], float] | None = None,
    finish: Callable[..., Message] | None = None,
    pace: type[Pace[Any]] = Pace,
    sections: type[SectionAssembly[Any, Any]] | None = None,
    rpc: str = "",
    without: str = "",
    order: str = "",
) -> Callable[[Method], Method]:
    """Declares NAME_stream, which gives one answer for each item, and NAME, which gives all of them as a `whole`.

    `asked` makes the items of arguments with the names of its own; `read` reads the answers to some items. `build` puts items
    into a request, in its field `inputs` unless given. `text` or `work` of an item say how large a call is; without them, calls
    with reference texts are large, and a `pace` of its own divides them otherwise. `sections` joins the answers to items that
    are sections of a text. `order` has the names of arguments that come first; the others are as in `total`.
    """
    raise NotImplementedError


def total(
    asked: Callable[..., Asked[Item]],
    read: Callable[..., Sum],
    *,
    text: Callable[[Item], TextOrPair],
    build: Callable[[Any, Sequence[Item]], Message] | None = None,
    finish: Callable[..., Message] | None = None,
    shared: str = "",
    without: str = "",
    order: str = "",
) -> Callable[[Method], Method]:
    """Declares NAME, which returns the sum of the replies to all calls.

    `read` reads one from a reply and, if it has further arguments, the request and the items. `finish` completes the request
    from arguments with the names of its own, some of the fields that it is `without` until then. `shared` has the names of
    arguments that items are made of and the request has, too; the others are as in `each`.
    """
    raise NotImplementedError


def trained(
    finish: Callable[..., Message],
    assembler: Callable[..., Any],
    progress: type[Any],
    *,
    lacking: str,
    rpc: str = "",
    without: str = "",
    order: str = "",
) -> Callable[[Method], Method]:
    """Declares NAME, which sends all texts in one call, and returns the result at the end of its stream.

    `assembler` makes progress, which goes to `on_progress`, and the result of messages; it gets the request if it takes one.
    `lacking` says how a stream ends that has no result; `rpc` is called, unless NAME says which; the others are as in `total`.
    """
    raise NotImplementedError


def extracted(
    asked: Callable[..., Asked[Item]],
    assembler: Callable[..., Any],
    *,
    build: Callable[[Any, Sequence[Item]], Message] | None = None,
    finish: Callable[..., Message] | None = None,
    without: str = "",
    order: str = "",
) -> Callable[[Method], Method]:
    """Declares NAME, which streams the tensors that `assembler` makes of each item's messages; the others are as in `total`."""
    raise NotImplementedError
