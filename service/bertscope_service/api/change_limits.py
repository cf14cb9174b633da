"""How many changes at sites a request may have, how large they are, and in how many rows they act."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.v1 import site_pb2

from bertscope_service.analyses.positions import Spans, Where
from bertscope_service.analyses.site_changes import PlannedChange
from bertscope_service.errors import InvalidArgument

FIELD = "site_interventions"

MAX_VECTOR_BYTES = 4 * 1024 * 1024
"""The vectors of a request."""

MAX_CODES_BYTES = 12 * 1024 * 1024
"""The vectors of sparse codes in a request."""

MAX_CHANGES = 10_000
"""The changes of a request, with those of the runs that vectors come from."""

MAX_PLACES = 262_144
"""The changes of a request times the rows that they act in. As many are placed in one to three seconds, off the loop."""

SPANS_OF_A_CHANGE = 16
"""So many spans are found in the time that one change takes."""

Messages = Sequence[site_pb2.SiteIntervention]


def check_count(messages: Messages) -> None:
    """Checks how many changes a request has. It takes milliseconds at most. Raises InvalidArgument."""
    count = sum(1 + len(message.change.source.interventions) for message in messages)
    if count > MAX_CHANGES:
        told = f"{FIELD} have {count} changes, with those of their sources, and a request may have {MAX_CHANGES}; send fewer"
        raise InvalidArgument(FIELD, told, "TOO_MANY_CHANGES", limit=MAX_CHANGES)


def check_places(changes: Sequence[PlannedChange], rows: int) -> None:
    """Checks in how many rows so many changes act: each has to be placed in each of them. Raises InvalidArgument."""
    spans = {id(which): len(which) for which in map(_spans, changes) if which is not None}
    count = rows * (len(changes) + sum(spans.values()) // SPANS_OF_A_CHANGE)
    if count > MAX_PLACES:
        told = f"{FIELD} are {len(changes)} changes, with {sum(spans.values())} spans, in {rows} rows of tokens"
        message = f"{told}: they act {count} times, and {MAX_PLACES} are allowed; send fewer texts, or fewer changes"
        raise InvalidArgument(FIELD, message, "TOO_MANY_CHANGES", limit=MAX_PLACES)


def _spans(change: PlannedChange) -> Spans | None:
    where = change.change.positions
    return where.which if isinstance(where, Where) and isinstance(where.which, Spans) else None


def check_vectors(messages: Messages, field: str) -> None:
    """Checks how many bytes the vectors of changes have. Raises InvalidArgument."""
    for size_of, most in ((_vector_bytes, MAX_VECTOR_BYTES), (codes_bytes, MAX_CODES_BYTES)):
        size = sum(size_of(message.change) for message in messages)
        if size > most:
            message = f"the vectors of {field} have {size} bytes and a request may have {most}; send fewer"
            raise InvalidArgument(field, message, "VECTORS_TOO_LARGE", limit=most)


def codes_bytes(change: site_pb2.SiteChange) -> int:
    """Returns the bytes of a change's sparse codes, and of those of the run that it takes vectors from."""
    kind = change.WhichOneof("change")
    if kind == "source":
        return sum(codes_bytes(one.change) for one in change.source.interventions)
    return change.codes.ByteSize() if kind == "codes" else 0


def _vector_bytes(change: site_pb2.SiteChange) -> int:
    tensors = (change.set, change.add.vector, change.erase.left, change.erase.right, change.erase.mean)
    inner = sum(_vector_bytes(one.change) for one in change.source.interventions)
    return sum(len(tensor.data) for tensor in tensors) + inner
