"""Makes the servicers of the contract: the same behind our own server and any other.

A service's class is found in `api/`: `ClozeServicer` for ClozeService. Its constructor names the parts of the server that it
needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import getmembers, isclass, signature
from pkgutil import iter_modules
from typing import Any

from bertscope_service import api
from bertscope_service.api.benchmark_plan import Resources
from bertscope_service.contract import METHODS
from bertscope_service.probing.states import StateSpace
from bertscope_service.rpc.hosting import Hosting


def servicer_classes() -> Mapping[str, type]:
    """Returns the class of each service, by the service's full name. Raises KeyError for a service without one."""
    found = {}
    for module in iter_modules(api.__path__, f"{api.__name__}."):
        for name, kind in getmembers(import_module(module.name), isclass):
            if name.endswith("Servicer") and kind.__module__ == module.name:
                found[name.removesuffix("Servicer")] = kind
    services = dict.fromkeys(method.service for method in METHODS.values())
    return {service: found[_stem(service)] for service in services}


def make_servicers(hosting: Hosting, ready: Callable[[], bool]) -> Mapping[str, object]:
    """Returns the servicer of each service, by the service's full name; `ready` returns whether calls would be answered now."""
    backend, settings = hosting.backend, hosting.settings
    parts = {
        "backend": backend,
        "memory_bytes": settings.sweep_memory_bytes,
        "ready": ready,
        "resources": Resources(backend, settings, hosting.read),
        "settings": settings,
        "space": StateSpace(settings.probe_memory_bytes, settings.probe_disk_bytes),
    }
    return {
        service: kind(**{name: parts[name] for name in signature(kind).parameters})
        for service, kind in servicer_classes().items()
    }


def make_answers(hosting: Hosting, ready: Callable[[], bool]) -> Mapping[str, Callable[..., Any]]:
    """Returns the function that answers each method of the contract, by the method's path; `ready` as in `make_servicers`.
    Raises KeyError for a service without a servicer."""
    servicers = make_servicers(hosting, ready)
    return {path: getattr(servicers[method.service], method.name) for path, method in METHODS.items()}


def _stem(service: str) -> str:
    """Returns "Cloze" for bertscope.v1.ClozeService."""
    return service.rpartition(".")[2].removesuffix("Service").removeprefix("GRPC")
