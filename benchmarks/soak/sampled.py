"""Questions of the soak that are found, not listed: the sample request of each interactive rpc. `heavy_work` has trainings."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscope_service.contract import METHODS, Method, Work

from benchmarks.soak.asking import Answer, Caller, Question, Role
from tests.support.reply_numbers import numbers_of
from tests.support.requests import good

ROLES = {
    "models/sorter": Role.CLASSIFIER,
    "models/tagger": Role.TAGGER,
    "models/rater": Role.RATER,
    "models/answerer": Role.ANSWERER,
}
"""Roles by the models that samples name; other samples are asked of every model with a masked-LM head."""

MASKED = {Role.EMBEDDED: (384, 1.0), Role.ONNX: (384, 1.0), Role.GUEST: (128, 0.5)}
"""The models with a masked-LM head: the size of their states, and how often they are asked."""

LISTED = frozenset({"CompareAttention", "FillMask", "ModelInfer", "SweepHeads", "RankHeads"})
"""Methods that `questions` asks more of, or whose answers have no digest of the weights."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """Sends a request as it is, of any model."""

    method: Method
    request: Any

    async def __call__(self, caller: Caller, model: str, seconds: float) -> Answer:
        request: Any = self.method.request()
        request.CopyFrom(self.request)
        request.model = model
        make: Any = caller.channel.unary_stream if self.method.streaming else caller.channel.unary_unary
        call = make(
            self.method.path,
            request_serializer=self.method.request.SerializeToString,
            response_deserializer=self.method.response.FromString,
        )(request, timeout=seconds)
        replies = [reply async for reply in call] if isinstance(call, AsyncIterable) else [await call]
        return Answer(next(_digests(replies), ""), arrays=[numbers_of(replies)])


def _digests(messages: Iterable[Any]) -> Iterator[str]:
    """Yields the digests of weights in messages, at any depth."""
    for message in messages:
        for field, value in message.ListFields():
            if field.name == "weights_digest":
                yield value
            elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
                yield from _digests(value if field.is_repeated else (value,))


def sampled_questions() -> list[Question]:
    """Returns a question for each method and role."""
    found = []
    samples: dict[Role, dict[str, Any]] = {role: dict(good(Path("/nowhere"), hidden)) for role, (hidden, _) in MASKED.items()}
    for method in METHODS.values():
        if method.work is not Work.INTERACTIVE or method.name in LISTED:
            continue
        for role, (_, weight) in MASKED.items():
            request = samples[role][method.name]
            if request.model and role is not Role.EMBEDDED:
                continue
            if "other_model" in request.DESCRIPTOR.fields_by_name:
                request.other_model = ""  # a comparison of its own layers
            asked, ask = ROLES.get(request.model, role), Sampled(method, request)
            found.append(Question(f"{method.name}, {asked.value}", asked, ask, ask, weight))
    return found
