"""Registers the servicers of the contract: the same behind our own server and any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bertscope_service.api.ablation import AblationServicer
from bertscope_service.api.attention import AttentionServicer
from bertscope_service.api.benchmark import BenchmarkServicer
from bertscope_service.api.benchmark_plan import Resources
from bertscope_service.api.classification import ClassificationServicer
from bertscope_service.api.cloze import ClozeServicer
from bertscope_service.api.inference import InferenceServicer
from bertscope_service.api.inspection import InspectionServicer
from bertscope_service.api.models import ModelServicer
from bertscope_service.api.question_answering import QuestionAnsweringServicer
from bertscope_service.api.representation import RepresentationServicer
from bertscope_service.contract import METHODS
from bertscope_service.probing.states import StateSpace
from bertscope_service.rpc.hosting import Hosting
from bertscope_service.rpc.registration import add_methods


def make_servicers(hosting: Hosting, ready: Callable[[], bool]) -> Mapping[str, object]:
    """Returns the servicer of each service, by the service's full name; `ready` returns whether calls would be answered now."""
    backend, settings = hosting.backend, hosting.settings
    return {
        "bertscope.v1.ModelService": ModelServicer(backend, settings),
        "bertscope.v1.AttentionService": AttentionServicer(backend),
        "bertscope.v1.InspectionService": InspectionServicer(backend),
        "bertscope.v1.RepresentationService": RepresentationServicer(
            backend, settings.sweep_memory_bytes, StateSpace(settings.probe_memory_bytes, settings.probe_disk_bytes)
        ),
        "bertscope.v1.ClozeService": ClozeServicer(backend),
        "bertscope.v1.ClassificationService": ClassificationServicer(backend),
        "bertscope.v1.QuestionAnsweringService": QuestionAnsweringServicer(backend),
        "bertscope.v1.AblationService": AblationServicer(backend, settings.sweep_memory_bytes),
        "bertscope.v1.BenchmarkService": BenchmarkServicer(Resources(backend, settings, hosting.read)),
        "inference.GRPCInferenceService": InferenceServicer(backend, ready),
    }


def add_services(server: Any, hosting: Hosting, ready: Callable[[], bool]) -> None:
    """Registers every method of the contract; `ready` as in `make_servicers`. Raises KeyError for a service without a
    servicer."""
    servicers = make_servicers(hosting, ready)
    add_methods(server, METHODS.values(), lambda method: getattr(servicers[method.service], method.name))
