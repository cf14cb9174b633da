"""Watches what all threads of a process share, from a thread of its own, while something else goes on."""

import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel, initialization, modeling_utils, monkey_patching
from transformers.integrations import hub_kernels

SWITCH_SECONDS = 1e-4
"""Python lets threads take turns so often while this watches, so that little happens unseen."""

PATCHED = (torch.nn.Module, torch.nn.Parameter, PreTrainedModel, torch.Tensor)
"""Classes whose methods libraries replace."""

FLAGS = ("_is_quantized", "_is_ds_init_called")


def functions() -> dict[str, int]:
    """What names mean that libraries replace: functions of PyTorch and of transformers, methods of their classes."""
    found: dict[str, Any] = {}
    for module in (torch, *(sys.modules[name] for name in initialization.TORCH_MODULES_TO_PATCH if name in sys.modules)):
        found |= {f"{module.__name__}.{name}": value for name, value in list(vars(module).items()) if callable(value)}
    for kind in PATCHED:
        found |= {f"{kind.__name__}.{name}": value for name, value in list(vars(kind).items())}
    for module in (initialization, modeling_utils):
        found |= {f"{module.__name__}.{name}": value for name, value in list(vars(module).items()) if callable(value)}
    return {name: id(value) for name, value in found.items()}


def settings() -> dict[str, Any]:
    """Values that libraries set for a while, or for good."""
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "current device": torch.utils._device.CURRENT_DEVICE,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "flush denormal": torch.backends.mkldnn.enabled,
        "transformers": [getattr(modeling_utils, name) for name in FLAGS],
        "kernels": hub_kernels.ALLOW_ALL_KERNELS,
        "patches": dict(monkey_patching._monkey_patch_mapping_cache),
        "verbosity": transformers.logging.get_verbosity(),
        "environment": dict(os.environ),
        "filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "disabled": logging.root.manager.disable,
        "root logger": (logging.root.level, list(logging.root.handlers), list(logging.root.filters)),
    }


def levels(names: frozenset[str]) -> dict[str, int]:
    return {name: logging.getLogger(name).level for name in names}


@contextmanager
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Fails at the end if anything of a process changed in here at any moment; gives the number of looks so far."""
    seen: list[str] = []

    def trap(owner: Any, name: str) -> None:
        """However short it lasts, whoever calls this has changed something."""
        original = getattr(owner, name)

        def changing(*arguments: Any, **options: Any) -> Any:
            seen.append(f"{name} was called by {threading.current_thread().name}")
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, changing)

    trap(torch, "set_default_dtype")
    trap(torch, "set_default_device")
    trap(torch.utils._device.DeviceContext, "__enter__")
    trap(warnings.catch_warnings, "__enter__")
    trap(os._Environ, "__setitem__")
    trap(PreTrainedModel, "initialize_weights")
    known = frozenset(name for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger))
    before, values, before_levels = functions(), settings(), levels(known)
    stopped, looks = threading.Event(), [0]

    def look() -> None:
        now, current = functions(), settings()
        seen.extend(f"{name} is another one" for name, place in before.items() if now.get(name) != place)
        added = [name for name in now.keys() - before.keys() if name.startswith(tuple(f"{kind.__name__}." for kind in PATCHED))]
        seen.extend(f"{name} is new" for name in added)
        seen.extend(f"{name} is {current[name]}" for name, value in values.items() if current[name] != value)
        seen.extend(f"level of {name}" for name, level in levels(known).items() if level != before_levels[name])
        looks[0] += 1

    def watch() -> None:
        while not stopped.is_set():
            look()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    watcher = threading.Thread(target=watch, name="watcher")
    watcher.start()
    try:
        yield lambda: looks[0]
    finally:
        stopped.set()
        watcher.join()
        sys.setswitchinterval(interval)
    look()
    assert not seen, sorted({*seen})
