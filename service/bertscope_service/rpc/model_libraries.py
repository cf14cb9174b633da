"""Imports PyTorch and all that runs models, beside a server that answers probes already."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bertscope_service.engine.daemon_thread import in_daemon_thread
from bertscope_service.lasting_imports import lasting_imports
from bertscope_service.observability import logs

if TYPE_CHECKING:
    from bertscope_service.rpc.hosting import Hosting

Answers = Callable[["Hosting", Callable[[], bool]], Mapping[str, Callable[..., Any]]]

_importing = threading.Event()


async def import_hosting() -> tuple[type[Hosting], Answers]:
    """Returns `Hosting` and `make_answers`, imported in a thread that a stop does not wait for."""
    return await in_daemon_thread(_import, "bertscope-import")


def importing() -> bool:
    """Returns whether an import is under way: the interpreter can't be torn down around it."""
    return _importing.is_set()


def libraries() -> str:
    """Returns the versions of what runs models. Imported already, by `import_hosting`."""
    from bertscope_service.encoders.onnx.sessions import onnxruntime_version

    versions = {"PyTorch": version("torch"), "ONNX Runtime": onnxruntime_version()}
    versions |= {name: version(name) for name in ("transformers", "grpcio")}
    return ", ".join(f"{name} {found}" for name, found in versions.items())


def _import() -> tuple[type[Hosting], Answers]:
    _importing.set()
    try:
        with lasting_imports():
            from bertscope_service.rpc.hosting import Hosting
            from bertscope_service.rpc.services import make_answers, servicer_classes

            servicer_classes()
    finally:
        _importing.clear()
    logs.adopt_libraries()
    return Hosting, make_answers
