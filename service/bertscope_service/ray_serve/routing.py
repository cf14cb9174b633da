"""Where a call goes: to the replicas of which model, if to any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from bertscope.inference import open_inference_pb2
from bertscope.v1 import ablation_pb2, attention_pb2, benchmark_pb2, classification_pb2, cloze_pb2, model_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from bertscope_service.errors import NotFound, Unsupported
from bertscope_service.security.roles import Role, required

T = TypeVar("T")

FILES = (model_pb2, attention_pb2, cloze_pb2, classification_pb2, ablation_pb2, benchmark_pb2, open_inference_pb2, health_pb2)
NAMES = ("model", "model_name", "name")
"""Fields in which requests name their model."""


def methods() -> Iterator[MethodDescriptor]:
    """All methods of the contract. No two have the same name, which is all that Ray goes by."""
    for file in FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            yield from service.methods


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


FIXED = frozenset(method.name for method in methods() if required(path_of(method)) > Role.READ) | {
    "BenchmarkModels",
    "BenchmarkStudies",
}
"""Methods that change models, or need all of them in one process: there is no such process here. What is left only reads, so
that it may be asked of another replica when one is lost."""


def choose(models: Mapping[str, T], request: Message) -> T:
    """The model that a request names, with or without "models/"; the first one if it names none. Raises NotFound."""
    field = next((name for name in NAMES if name in request.DESCRIPTOR.fields_by_name), None)
    name = getattr(request, field) if field else ""
    if not name:
        return next(iter(models.values()))
    found = models.get(name.removeprefix("models/"))
    if found is None:
        loaded = ", ".join(f"models/{one}" for one in models)
        raise NotFound(f"model {name!r} is not loaded; loaded: {loaded}", "MODEL_NOT_FOUND", model=name)
    return found


def require_answerable(method: str) -> None:
    """Raises Unsupported for what replicas can't do."""
    if method in FIXED:
        message = (
            f"{method} is not to be had on Ray Serve: the configuration of the application says which models there are; "
            "change it and deploy it again, or ask a server that `bertscope serve` started"
        )
        raise Unsupported(message, "MODELS_FIXED", method=method)
