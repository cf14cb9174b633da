"""What each method needs of its caller: the one table of permissions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Role(IntEnum):
    """What a caller may do; each role may also do what lower ones may."""

    ANYONE = 0
    """What needs no token."""

    READ = 1
    """Every question: what computes and changes nothing."""

    ADMIN = 2
    """What changes what the server hosts, writes to its disk, or looks inside it."""


ANYONE, READ, ADMIN = Role

METHODS: Mapping[str, Mapping[str, Role]] = {
    "bertscope.v1.ModelService": {
        "ListModels": READ,
        "GetModel": READ,
        "LoadModel": ADMIN,
        "UnloadModel": ADMIN,
        "CompressModel": ADMIN,
    },
    "bertscope.v1.AttentionService": {"ExtractAttention": READ},
    "bertscope.v1.ClozeService": {"FillMask": READ},
    "bertscope.v1.ClassificationService": {"Classify": READ},
    "bertscope.v1.AblationService": {"SweepHeads": READ, "RankHeads": READ, "PruneHeads": ADMIN},
    "bertscope.v1.BenchmarkService": {"BenchmarkModels": READ, "BenchmarkStudies": READ},
    "inference.GRPCInferenceService": {
        "ServerLive": ANYONE,
        "ServerReady": ANYONE,
        "ModelReady": ANYONE,
        "ServerMetadata": READ,
        "ModelMetadata": READ,
        "ModelConfig": READ,
        "ModelInfer": READ,
    },
    # Probes and balancers hold no tokens.
    "grpc.health.v1.Health": {"Check": ANYONE, "List": ANYONE, "Watch": ANYONE},
    "grpc.reflection.v1.ServerReflection": {"ServerReflectionInfo": READ},
    "grpc.reflection.v1alpha.ServerReflection": {"ServerReflectionInfo": READ},
}
"""The least role of every method, by service. What is not in it needs ADMIN, channelz among it: what is forgotten is closed."""

_BY_PATH = {f"/{service}/{name}": role for service, methods in METHODS.items() for name, role in methods.items()}


def is_known(path: str) -> bool:
    """Whether the table has a method: names of others are the caller's invention, and may be anything."""
    return path in _BY_PATH


def required(path: str) -> Role:
    """The least role that may call "/package.Service/Method"."""
    return _BY_PATH.get(path, ADMIN)
