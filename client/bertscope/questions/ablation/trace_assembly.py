"""Assembles the messages of SweepSites streams, one for each part of the pairs, into a trace; and resumes one. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.questions.ablation.resumption import json_digest
from bertscope.questions.ablation.site_effects import PairValues, SiteEffect, SiteSweepStart, read_effect
from bertscope.questions.ablation.traced_pairs import AskedPair
from bertscope.questions.ablation.traces import Trace
from bertscope.v1 import ablation_sites_pb2
from bertscope.values import messages as wire
from bertscope.values.score_targets import described

Request = ablation_sites_pb2.SweepSitesRequest


class TraceAssembler:
    """The state of the streams of a trace: messages in, effects out, and the trace at the end.

    A part begins with its start and ends with its summary. The effects of parts that ended are kept; a part that begins again
    loses what it had.
    """

    def __init__(self, request: Request, pairs: Sequence[AskedPair], earlier: Trace | None = None) -> None:
        """`request` has no pairs; `earlier` has the first of them, which are not asked about again."""
        self._request, self._pairs = request, pairs
        self._asked, self._digests = asked(request), tuple(digest(pair.message) for pair in pairs)
        self.whole = earlier
        self.start: SiteSweepStart | None = None
        self._effects: list[SiteEffect] = []
        self._open = False

    @property
    def done(self) -> int:
        """The pairs of parts that ended."""
        return 0 if self.whole is None else len(self.whole.pairs)

    def add(self, message: ablation_sites_pb2.SweepSitesResponse) -> SiteEffect | None:
        """Processes one message and returns its effect, over the pairs of its part, if it has one.

        Raises InvalidReply for a message that breaks the contract.
        """
        event = message.WhichOneof("event")
        if event is None:
            return None  # An event that a newer server knows and this version does not.
        if event == "start":
            self.start, self._effects, self._open = self._started(message.start), [], True
            return None
        if not self._open or self.start is None:
            raise InvalidReply(f"the server sent the {event} of a sweep where it is not due")
        if event == "effect":
            self._effects.append(read_effect(message.effect))
            return self._effects[-1]
        if len(self._effects) != self.start.total:
            raise InvalidReply(f"the server announced {self.start.total} effects and sent {len(self._effects)}")
        part = self._part(self.start, message.summary)
        self.whole, self._open = part if self.whole is None else Trace.merge([self.whole, part]), False
        return None

    def _started(self, message: ablation_sites_pb2.SiteSweepStart) -> SiteSweepStart:
        first, count = self.done, len(message.pairs)
        if not 0 < count <= len(self._pairs) - first:
            raise InvalidReply(f"the server began a sweep over {count} pairs, and {len(self._pairs) - first} are left")
        pairs = []
        for values, pair in zip(message.pairs, self._pairs[first:], strict=False):
            text, said = wire.text_of(pair.message.clean), described(pair.target, values.label)
            pairs.append(wire.read(PairValues, values, text=text, target=said))
        scope = wire.enum_name(ablation_sites_pb2.PositionScope, message.positions)
        direction = wire.enum_name(ablation_sites_pb2.PatchDirection, message.direction)
        return wire.read(
            SiteSweepStart,
            message,
            pairs=tuple(pairs),
            positions="paths" if self._request.HasField("paths") else scope,
            direction=direction if message.direction else "change",
        )

    def _part(self, start: SiteSweepStart, summary: ablation_sites_pb2.SiteSweepSummary) -> Trace:
        return wire.read(
            Trace,
            summary,
            positions=start.positions,
            direction=start.direction,
            pairs=start.pairs,
            effects=tuple(self._effects),
            asked=self._asked,
            digests=self._digests[self.done : self.done + len(start.pairs)],
            interrupted=None,
        )

    def partial(self, why: str) -> Trace | None:
        """Returns the trace over the pairs of parts that ended; None if there are none."""
        return None if self.whole is None else replace(self.whole, interrupted=why)

    def end(self) -> Trace:
        """Returns the whole trace. Raises InvalidReply if a stream ended before it was complete."""
        if self.whole is None or self._open or self.done != len(self._pairs):
            raise InvalidReply(f"the stream ended early: {self.done} of {len(self._pairs)} pairs are complete")
        return self.whole


def asked(request: Request) -> dict[str, Any]:
    """Returns a request without its pairs in JSON types, long values as digests; the model is compared by its weights."""
    found = json_format.MessageToDict(request, preserving_proto_field_name=True)
    for name in ("model", "pairs", "memory_bytes"):
        found.pop(name, None)
    return {name: json_digest(value) if len(json.dumps(value)) > 1000 else value for name, value in found.items()}


def digest(pair: Message) -> str:
    """Returns a few digits that tell pairs apart."""
    return hashlib.sha256(pair.SerializeToString(deterministic=True)).hexdigest()[:16]


def begin(request: Request, pairs: Sequence[Message], start_from: Trace | str | PathLike[str] | None) -> Trace | None:
    """Returns the earlier trace that is resumed, checked, as a whole one; None if there is none.

    Raises InvalidArgument, naming the first difference, unless it was asked the same about the first of the pairs; and OSError.
    """
    if start_from is None:
        return None
    if not isinstance(start_from, (Trace, str, PathLike)):
        raise invalid_argument("start_from", f"start_from must be a Trace or its file, not {type(start_from).__name__}")
    earlier = start_from if isinstance(start_from, Trace) else Trace.load(start_from)
    now = asked(request)
    for name in {*now, *earlier.asked}:
        if earlier.asked.get(name) != now.get(name):
            was, given = (json.dumps(each.get(name)) for each in (earlier.asked, now))
            raise invalid_argument("start_from", f"start_from was measured with {name} {was}, and not {given}; give the same")
    digests = tuple(map(digest, pairs[: len(earlier.pairs)]))
    if digests != earlier.digests:
        different = next((n for n, (a, b) in enumerate(zip(digests, earlier.digests, strict=False)) if a != b), len(digests))
        raise invalid_argument("start_from", f"start_from has another pair {different}; give the same pairs, in the same order")
    return replace(earlier, interrupted=None)
