"""Exported graphs of tiny checkpoints, made once in a test run."""

import fcntl
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.encoders.onnx.encoder import OnnxEncoder
from bertscope_service.models.loading import read_model
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

CPU = torch.device("cpu")

READ = partial(read_model, runtimes=RuntimeSettings(Path(os.devnull)))
"""Reads models as a server does that has no cache to export into."""


def load_exported(folder: Path, cache: Path, optimisation: str = "all") -> OnnxEncoder:
    """A checkpoint folder by ONNX Runtime, on one thread."""
    source, settings = inspect(folder), RuntimeSettings(cache, threads=1, optimisation=optimisation)
    (encoder,) = read_encoders(source, source.digest(lambda _: None), RuntimeRequest("onnx", "fp32", CPU), settings)
    assert isinstance(encoder, OnnxEncoder)
    return encoder


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """A folder that the first process of a test run to need it makes; it appears complete. Nobody may change it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            make(folder)
    return folder
