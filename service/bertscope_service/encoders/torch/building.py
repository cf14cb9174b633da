"""Makes transformers' models without changing any state that other threads see.

transformers' own `from_pretrained` sets PyTorch's default number format, replaces functions of `torch.nn.init` and methods of
its classes, and restores them at the end. These changes affect the whole process, in which other threads compute, or load too.
Here a model is made as an outline, whose parameters have shapes and no memory, under a mode of this thread alone; then it gets
its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from bertscope_service.encoders.torch.architectures.attention import register_attention

STORAGE = frozenset({torch.empty, torch.ones, torch.zeros, torch.full})
"""Functions with which modules make their parameters."""

TABLES = STORAGE | {torch.arange}
"""Functions with which modules make their buffers: positions and segments, all integers, and ModernBERT's frequencies."""

LONGEST_TABLE = 2**24
"""The most numbers in a table; position embeddings have some thousand places."""

SPREAD = 0.02
"""Parameters that the weights lack lie between minus and plus this; they are never used."""


class _Outline(TorchFunctionMode):
    """Makes parameters on the meta device, and buffers as usual, in this thread only."""

    def __init__(self, dtype: torch.dtype, most: int) -> None:
        """`dtype`: of parameters. `most`: the most parameters that may be made."""
        super().__init__()
        self._dtype = dtype
        self._left = most

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if given.get("device") is None:
            dtype = given.get("dtype")
            if func in STORAGE and (dtype is None or dtype.is_floating_point):
                self._left -= 1
                if self._left < 0:
                    raise ValueError("it describes a model of many more parts than the weights have")
                given |= {"device": "meta", "dtype": dtype or self._dtype}
            elif func in TABLES:
                count = func(*args, **given | {"device": "meta"}).numel()
                if count > LONGEST_TABLE:
                    raise ValueError(f"it describes a table of {count} numbers, and {LONGEST_TABLE} is the most")
                given |= {"device": "cpu"}
            elif func is torch.tensor and args and not args[0]:
                # transformers asks in this way where modules are made, and does not initialise them on the meta device.
                given |= {"device": "meta", "dtype": dtype or self._dtype}
        return func(*args, **given)


def outline(kind: Callable[[Any], Any], config: Any, dtype: torch.dtype, most: int = 100_000) -> Any:
    """Returns a transformers model whose parameters have number format and shape but no memory; its buffers are real.

    `kind` is its class; `config` is changed: it names our attention and the number format. Raises ValueError for a config that
    describes more than `most` parameters, and the class's own errors for an inconsistent one.
    """
    config.dtype, config._attn_implementation = dtype, register_attention()
    with _Outline(dtype, most):
        model = kind(config)
    astray = [name for name, parameter in model.named_parameters() if parameter.device.type != "meta"]
    astray += [name for name, buffer in model.named_buffers() if buffer.device.type == "meta"]
    if astray:
        raise RuntimeError(f"this version of transformers makes {astray[0]} in another way than those before")
    return model.eval().requires_grad_(False)


@dataclass(frozen=True, slots=True)
class Assigned:
    """missing: names of parameters without weights. misshapen: names of parameters whose weights have another shape."""

    missing: frozenset[str]
    misshapen: tuple[str, ...]


class Assembly:
    """An outline that becomes a model: it gets its weights one by one, under the names that checkpoints have for them."""

    def __init__(self, model: Any, dtype: torch.dtype) -> None:
        self._model = model
        self._dtype = dtype
        self._waiting: dict[str, torch.Size] = {name: tensor.shape for name, tensor in model.state_dict().items()}
        self._known = frozenset(self._waiting)
        self._buffers = {name: buffer for name, buffer in model.named_buffers() if name in self._known}
        self._misshapen: list[str] = []

    def name_of(self, stored: str) -> str | None:
        """Returns the model's name for a tensor of a checkpoint, or None if the model does not use it."""
        renamed = _rename(stored)
        return self._place(renamed) or self._place(stored)

    def _place(self, name: str) -> str | None:
        prefix = f"{self._model.base_model_prefix}."
        for candidate in (name.removeprefix(prefix), f"{prefix}{name}", name):
            if candidate in self._known:
                return candidate
        return None

    def put(self, stored: str, tensor: torch.Tensor) -> None:
        """Gives the model a tensor of a checkpoint, in the model's number format.

        A tensor that the model does not use is ignored, and so is a second one for the same parameter.
        """
        name = self.name_of(stored)
        if name is None or name not in self._waiting:
            return
        if tensor.shape != self._waiting.pop(name):
            self._misshapen.append(name)
            return
        if name in self._buffers:
            self._buffers[name].copy_(tensor)
        else:
            set_parameter(self._model, name, tensor.to(self._dtype))

    def finish(self) -> Assigned:
        """Ties parameters that have several names, and returns the missing ones, which still have no memory."""
        # Buffers have the values that their modules computed.
        missing = self._waiting.keys() - self._buffers.keys()
        self._model.tie_weights(missing_keys=missing, recompute_mapping=False)
        return Assigned(frozenset(missing), tuple(sorted(self._misshapen)))


def _rename(name: str) -> str:
    """Translates TensorFlow-era names of the parts of a norm."""
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        name = name.replace(old, new)
    return name


def set_parameter(model: torch.nn.Module, name: str, values: torch.Tensor) -> None:
    """Sets the values of a parameter, without a gradient."""
    path, _, own = name.rpartition(".")
    setattr(model.get_submodule(path), own, torch.nn.Parameter(values, requires_grad=False))


def give_memory(model: torch.nn.Module, most: int) -> list[torch.nn.Parameter]:
    """Gives uninitialised memory to all parameters of an outline that have none, and returns them. Tied ones stay tied.

    Raises ValueError if they are more than `most` numbers: only a config says how many there are.
    """
    names: dict[int, list[str]] = {}
    empty: dict[int, torch.Tensor] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.device.type == "meta":
            names.setdefault(id(parameter), []).append(name)
            empty[id(parameter)] = parameter
    count = sum(parameter.numel() for parameter in empty.values())
    if count > most:
        raise ValueError(f"it describes a head of {count} numbers, and the weights have none of them")
    given = []
    for key, shape in empty.items():
        room = torch.empty(shape.shape, dtype=shape.dtype, device="cpu")
        given.append(torch.nn.Parameter(room, requires_grad=False))
        for name in names[key]:
            path, _, own = name.rpartition(".")
            setattr(model.get_submodule(path), own, given[-1])
    return given


def fill_missing(model: torch.nn.Module, most: int) -> None:
    """Gives random values to all parameters of an outline that have none, the same ones each time. Raises ValueError as
    `give_memory` does."""
    generator = torch.Generator().manual_seed(0)
    for parameter in give_memory(model, most):
        parameter.uniform_(-SPREAD, SPREAD, generator=generator)
