"""The largest requests of an rpc: its sample, of which one list, one text or all are as large as rules and limits allow."""

from collections.abc import Iterator
from typing import Any

from bertscope_service.api.limits import RequestLimits
from bertscope_service.settings import Settings
from google.protobuf.message import Message

from tools.protos import rules
from tools.protos.borders import Borders
from tools.protos.files import PROTOS, described

MOST_BYTES = 1_000_000
"""Lists without a rule are filled up to about so many bytes."""

WORD = "the cat sat "


class Largest:
    """Makes the largest requests from samples."""

    def __init__(self) -> None:
        usual = Settings()
        self.limits = RequestLimits(usual.max_texts, usual.max_text_characters, usual.max_candidates, usual.max_request_tokens)
        self._contract = rules.read(described(PROTOS))
        self._borders = Borders(self._contract, self.limits)

    def of(self, sample: Message) -> Iterator[tuple[str, Message]]:
        """Yields the requests, each with the path of the field that is as large as it may be."""
        for path in [*self._paths(sample)]:
            request = type(sample)()
            request.CopyFrom(sample)
            self._grow(request, path)
            yield ".".join(path), request

    def whole(self, sample: Message) -> Message:
        """Returns the request in which all lists that the sample has are as large as they may be, inner ones first."""
        request = type(sample)()
        request.CopyFrom(sample)
        for path in sorted(self._paths(sample, filled=True), key=len, reverse=True):
            self._grow(request, path)
        return request

    def _paths(self, message: Any, seen: frozenset[str] = frozenset(), *, filled: bool = False) -> Iterator[tuple[str, ...]]:
        """Yields the ways to all lists, also of messages that are not set if not `filled`."""
        name = message.DESCRIPTOR.full_name
        if name not in self._contract.messages or name in seen:
            return
        for field in self._contract.messages[name].fields:
            value = getattr(message, field.name)
            several = field.items is not None
            if several and (len(value) or not filled):
                yield (field.name,)
            if field.rules.limit == "text_characters" and not filled:
                yield (field.name,)
            if field.type in self._contract.messages:
                if several:
                    inner = value[0] if len(value) else self._borders.smallest(field.type)
                elif message.HasField(field.name) or not filled:
                    inner = value
                else:
                    continue
                if several and not len(value) and filled:
                    continue
                for rest in self._paths(inner, seen | {name}, filled=filled):
                    yield (field.name, *rest)

    def _grow(self, message: Any, path: tuple[str, ...]) -> None:
        name, rest = path[0], path[1:]
        (field,) = (one for one in self._contract.messages[message.DESCRIPTOR.full_name].fields if one.name == name)
        value = getattr(message, name)
        if field.items is None:
            if rest:
                self._grow(value, rest)
                value.SetInParent()
            else:
                setattr(message, name, (WORD * self.limits.text_characters)[: self.limits.text_characters])
            return
        if rest:
            if not len(value):
                value.add().CopyFrom(self._borders.smallest(field.type))
            self._grow(value[0], rest)
            return
        given = list(value) or [self._borders.entry(field, 0)]
        size = max(1, given[0].ByteSize() if isinstance(given[0], Message) else len(str(given[0])))
        most = field.rules.most or getattr(self.limits, field.rules.limit, 0) or MOST_BYTES // size
        count = int(min(most, 20 * MOST_BYTES // size))
        own = field.rules.unique and not isinstance(given[0], Message)
        value.extend(self._borders.entry(field, number) if own else given[0] for number in range(len(value), count))
