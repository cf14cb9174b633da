# Generated from bertscope/aio/many_texts.py. Do not edit: change that file, and run `make client`.
"""Sends any number of texts: a few calls at a time, answers in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from bertscope._messages import Asked
from bertscope._rpc.splitting import CALLS_UNDER_WAY, Part, Parts
from bertscope._rpc.threads import Call, cancel_all, sleep
from bertscope.client.connection import Connection
from bertscope.errors import BertscopeError
from bertscope.v1 import classification_pb2, cloze_pb2

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Reply = TypeVar("Reply", bound=cloze_pb2.FillMaskResponse | classification_pb2.ClassifyResponse)


class ManyTexts(Connection):
    """Calls about any number of texts."""

    def _answers(
        self,
        asked: Asked[Item],
        build: Callable[[Sequence[Item]], Message],
        reply: type[Reply],
        read: Callable[[Sequence[Item], Reply], Iterable[Answer]],
        timeout: float | None,
        *,
        large: bool,
    ) -> Generator[Answer, None, None]:
        """Yields the answers to all texts, in order. However it ends, no call stays under way.

        `build` makes the request about some texts, and `read` the answers of its reply. `large` calls are worth more than quick
        ones.
        """
        parts = Parts(asked.items, asked.total, self._limit, large=large)
        attempts = self._retries.attempts
        only = parts.only()
        if only is not None:
            try:
                response = self._call(build(only.items), reply, timeout)
            except BertscopeError as error:
                parts.put_back(parts.refused(only, error, attempts)[0])
            else:
                for answer in read(only.items, response):
                    yield answer
                return
        running: deque[tuple[Part[Item], Call[Reply]]] = deque()
        width = CALLS_UNDER_WAY
        try:
            while True:
                while len(running) < width and (part := parts.take()) is not None:
                    running.append((part, self._one_of_many(build(part.items), reply, timeout)))
                    running[-1][1].begin()  # Noted first, so that nothing keeps it from being cancelled.
                if not running:
                    parts.end()
                    return
                part, call = running[0]
                try:
                    response = call.result()
                    parts.check_weights(part.start, response.provenance.weights_digest)
                except BertscopeError as error:
                    running.popleft()
                    pieces, seconds = parts.refused(part, error, attempts)
                    if len(pieces) == 1:  # The server is too busy: only the running calls continue.
                        width = max(1, len(running))
                        sleep(seconds)
                        running.appendleft((pieces[0], self._one_of_many(build(pieces[0].items), reply, timeout)))
                        running[0][1].begin()
                        continue
                    cancel_all([call for _, call in running])  # They are as large.
                    parts.put_back([*pieces, *(later for later, _ in running)])
                    running.clear()
                    continue
                running.popleft()
                parts.answered(call.seconds)
                for answer in read(part.items, response):
                    yield answer
        finally:
            cancel_all([call for _, call in running])
