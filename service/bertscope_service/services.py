"""The services of the contract, and what answers each: the same behind our own server and behind any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import grpc
from bertscope.inference import open_inference_pb2
from bertscope.v1 import (
    ablation_pb2,
    ablation_pb2_grpc,
    attention_pb2,
    attention_pb2_grpc,
    benchmark_pb2,
    benchmark_pb2_grpc,
    classification_pb2,
    classification_pb2_grpc,
    cloze_pb2,
    cloze_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
)
from google.protobuf.descriptor import FileDescriptor

from bertscope_service.hosting import Hosting
from bertscope_service.reply_room import ReplyRoom
from bertscope_service.servicers.ablation import AblationServicer
from bertscope_service.servicers.attention import AttentionServicer
from bertscope_service.servicers.benchmark import BenchmarkServicer
from bertscope_service.servicers.classification import ClassificationServicer
from bertscope_service.servicers.cloze import ClozeServicer
from bertscope_service.servicers.inference import InferenceServicer, add_inference_servicer
from bertscope_service.servicers.model import ModelServicer

PROTOS: Sequence[FileDescriptor] = (
    model_pb2.DESCRIPTOR,
    attention_pb2.DESCRIPTOR,
    cloze_pb2.DESCRIPTOR,
    classification_pb2.DESCRIPTOR,
    ablation_pb2.DESCRIPTOR,
    benchmark_pb2.DESCRIPTOR,
    open_inference_pb2.DESCRIPTOR,
)
SERVICES = tuple(name for proto in PROTOS for name in (service.full_name for service in proto.services_by_name.values()))


def add_services(server: grpc.aio.Server, hosting: Hosting, ready: Callable[[], bool]) -> None:
    """Register all servicers; `ready` says whether calls would be answered now."""
    backend, settings = hosting.backend, hosting.settings
    model_pb2_grpc.add_ModelServiceServicer_to_server(ModelServicer(backend, settings), server)
    attention_pb2_grpc.add_AttentionServiceServicer_to_server(AttentionServicer(backend), server)
    cloze_pb2_grpc.add_ClozeServiceServicer_to_server(ClozeServicer(backend), server)
    classification_pb2_grpc.add_ClassificationServiceServicer_to_server(ClassificationServicer(backend), server)
    ablation = AblationServicer(backend, settings.sweep_memory_bytes)
    ablation_pb2_grpc.add_AblationServiceServicer_to_server(ablation, server)
    benchmark = BenchmarkServicer(backend, settings, hosting.read)
    benchmark_pb2_grpc.add_BenchmarkServiceServicer_to_server(benchmark, server)
    add_inference_servicer(InferenceServicer(backend, ReplyRoom(hosting.metrics), ready), server)
