"""The models of a process and the engine that runs them: what a server is without its sockets."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import bertscope
import torch

from bertscope_service.engine.engine import Engine
from bertscope_service.engine.worker import Limits
from bertscope_service.errors import InvalidArgument
from bertscope_service.loaded import LoadedModel, LoadSpec
from bertscope_service.loading import read_model
from bertscope_service.messages.limits import RequestLimits
from bertscope_service.messages.model import load_spec
from bertscope_service.metrics import Metrics
from bertscope_service.registry import Registry
from bertscope_service.runtimes import RuntimeSettings
from bertscope_service.security.model_sources import SourcePolicy
from bertscope_service.servicers.base import Backend
from bertscope_service.settings import EMBEDDED, Settings
from bertscope_service.warm_up import warm_up

logger = logging.getLogger(__name__)

CPU_BATCH_TOKENS = 1024
GPU_BATCH_TOKENS = 16_384


class Hosting:
    """Loads the models of the settings and runs them. Belongs to the event loop."""

    def __init__(self, settings: Settings, on_broken: Callable[[torch.device], None]) -> None:
        """`on_broken` is called from another thread when a device has failed for good."""
        self.settings = settings
        self.metrics = Metrics()
        self.metrics.build_info.labels(bertscope.__version__).set(1)
        self.engine = Engine(self._limits, self.metrics, on_broken)
        runtimes = RuntimeSettings(settings.cache_folder, settings.threads, settings.onnx_optimisation)
        self.read = partial(read_model, runtimes=runtimes)
        self.registry = Registry(self.metrics, self.read, self._warm_up)
        self.backend = Backend(self.engine, self.registry, RequestLimits.of(settings), SourcePolicy.of(settings))

    def _limits(self, device: torch.device) -> Limits:
        default = GPU_BATCH_TOKENS if device.type == "cuda" else CPU_BATCH_TOKENS
        settings = self.settings
        return Limits(
            settings.batch_tokens or default,
            settings.queue_tokens,
            queue_seconds=settings.queue_seconds,
            threads=settings.threads,
        )

    async def _warm_up(self, model: LoadedModel) -> LoadedModel:
        return await warm_up(self.engine, model)

    async def load_models(self) -> None:
        """Load the models of the settings, one after the other. Raises ServiceError."""
        for entry in self.settings.model or [EMBEDDED]:
            spec = parse_model(entry, self.settings)
            logger.info("loading %s from %s", spec.name, spec.source)
            model = await self.registry.load(spec, lambda _: None)
            encoder = model.encoder
            logger.info("%s is ready on %s in %s, run by %s", model.name, encoder.device, encoder.precision, encoder.runtime)


def parse_model(entry: str, settings: Settings) -> LoadSpec:
    """[NAME=]SOURCE; the name defaults to the source's last part. Raises InvalidArgument."""
    name, equals, source = entry.partition("=")
    # A folder may have "=" in its name; then what stands before it is no name.
    if not equals or "/" in name:
        name, source = "", entry
    if not source.strip():
        raise InvalidArgument("model", f"--model {entry!r} names no source; write NAME=SOURCE or SOURCE", "NO_SOURCE")
    return load_spec(name, source, settings.device, settings.precision, settings.runtime)
