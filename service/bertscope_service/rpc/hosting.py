"""Hosts the models of a process and the engine that runs them: a server without its sockets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from bertscope_service.api.answer import Backend
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.models import load_spec
from bertscope_service.api.reply_memory import ReplyMemory
from bertscope_service.api.request_memory import RequestMemory
from bertscope_service.embedded import EMBEDDED
from bertscope_service.encoders.device_memory import pinned_memory
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.limits import Limits
from bertscope_service.models.given_sources import name_and_source
from bertscope_service.models.kept_exports import exports_bytes
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.loading import choose_device, read_model
from bertscope_service.models.precisions import set_float32_products, usual_precision
from bertscope_service.models.registry import Registry, Report
from bertscope_service.models.runtime_choice import RuntimeChoices
from bertscope_service.models.runtimes import RuntimeSettings
from bertscope_service.models.warm_up import warm_up
from bertscope_service.observability.device_memory import DeviceMemory
from bertscope_service.observability.machine import memory_limit
from bertscope_service.observability.metrics import Metrics
from bertscope_service.security.model_sources import SourcePolicy
from bertscope_service.settings import Settings

logger = logging.getLogger(__name__)

QUEUE_TOKENS = 262_144
"""The tokens that may wait on any device unless the settings say otherwise; more on a device that runs more in its time."""

WAITING_TOKEN_BYTES = 256
"""Memory of a waiting token on the host, at most: a row of FillMask takes 1.3 kB with 8 tokens and 7.8 kB with 128, and its
call and its answer take some more."""

MEMORY_SHARE = 16
"""Waiting tokens take at most one part of the process's memory in so many."""


class Hosting:
    """Loads the models of the settings and runs them. It belongs to the event loop."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        replies: ReplyMemory,
        requests: RequestMemory,
        on_broken: Callable[[torch.device], None],
        on_stalled: Callable[[torch.device, bool], None],
    ) -> None:
        """`on_broken` and `on_stalled`: see Engine. Raises InvalidArgument, AlreadyExists for the models of the settings."""
        set_float32_products(tf32=settings.precision == "tf32")
        self.settings = settings
        self.metrics = metrics
        self.metrics.registry.register(DeviceMemory(pinned_memory))
        self.engine = Engine(partial(device_limits, settings), self.metrics, on_broken, on_stalled)
        runtimes = RuntimeSettings(
            settings.cache_folder,
            settings.threads,
            settings.onnx_optimisation,
            RuntimeChoices(settings.cache_folder),
            settings.onnx_mixed_batches,
        )
        self.metrics.export_cache_bytes.set_function(partial(exports_bytes, settings.cache_folder))
        self.read = partial(read_model, runtimes=runtimes)
        self.registry = Registry(self.metrics, self._read, self._warm_up)
        self._specs = [parse_model(entry, settings) for entry in settings.model or [EMBEDDED]]
        self.registry.expect(self._specs)
        limits = RequestLimits(
            settings.max_texts, settings.max_text_characters, settings.max_candidates, settings.max_request_tokens
        )
        self.backend = Backend(self.engine, self.registry, limits, SourcePolicy.of(settings), replies, requests)

    def _read(self, spec: LoadSpec, report: Report) -> LoadedModel:
        with _timed(f"{spec.name} was read"):
            return self.read(spec, report)

    async def _warm_up(self, model: LoadedModel) -> LoadedModel:
        with _timed(f"{model.name} ran for the first time"):
            return await warm_up(self.engine, model)

    async def load_models(self) -> None:
        """Loads the models of the settings, one after the other. Raises ServiceError."""
        settings = self.settings
        threads = settings.threads or torch.get_num_threads()
        runtime = "the faster runtime" if settings.runtime == "auto" else settings.runtime
        device = choose_device(settings.device)
        logger.info("models run on %s with %d thread%s, by %s", device, threads, "s" * (threads != 1), runtime)
        if settings.precision == "auto" and device.type == "cuda":
            logger.info("models compute in %s on %s (--precision auto)", usual_precision(device), device)
        for spec in self._specs:
            logger.info("loading %s from %s", spec.name, spec.source)
            model = await self.registry.load(spec, lambda _: None)
            encoder = model.encoder
            logger.info("%s is ready on %s in %s, run by %s", model.name, encoder.device, encoder.precision, encoder.runtime)


def device_limits(settings: Settings, device: torch.device) -> Limits:
    """Returns the limits of a device; those that the settings leave open follow the device and the memory."""
    return Limits(
        settings.batch_tokens or size_limits(device).batch_tokens,
        settings.queue_tokens or QUEUE_TOKENS,
        queue_seconds=settings.queue_seconds,
        threads=settings.threads,
        stall_seconds=settings.stall_seconds,
        most_queue_tokens=0 if settings.queue_tokens else memory_limit() // MEMORY_SHARE // WAITING_TOKEN_BYTES,
    )


@contextmanager
def _timed(what: str) -> Iterator[None]:
    """Logs how long a step took, unless it failed."""
    began = time.perf_counter()
    yield
    logger.info("%s in %.2f s", what, time.perf_counter() - began)


def parse_model(entry: str, settings: Settings) -> LoadSpec:
    """Parses [NAME=]SOURCE; the name defaults to the source's last part. Raises InvalidArgument."""
    name, source = name_and_source(entry)
    return load_spec(name, source, settings.device, settings.precision, settings.runtime)
