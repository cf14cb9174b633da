"""Tensors that say they are on a GPU: each holds one of the host, on which its operations are done."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.support.pretended_gpu.graphs import captured, forbid
from tests.support.pretended_gpu.kernels import KERNELS
from tests.support.pretended_gpu.memory import GPU, write
from tests.support.pretended_gpu.operations import INDEXING, WAITS, has_kernel, is_view, splits
from tests.support.pretended_gpu.recording import note, place

aten = torch.ops.aten
CPU = torch.device("cpu")
GRAPH_KEYS = (torch._C.DispatchKey.AutogradFunctionality, torch._C.DispatchKey.ADInplaceOrView)


class DeviceTensor(torch.Tensor):
    """A tensor of a pretended device."""

    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: torch.Tensor, device: torch.device) -> DeviceTensor:
        made: DeviceTensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            layout=host.layout,
            device=device,
            requires_grad=False,
        )
        made.host = host
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(function, args, kwargs or {})

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"DeviceTensor({tuple(self.shape)}, {self.dtype}, {self.device})"

    def __deepcopy__(self, memo: object) -> DeviceTensor:
        return DeviceTensor(self.host.clone(), self.device)

    def data_ptr(self) -> int:
        return self.host.data_ptr()

    def tolist(self) -> Any:
        note("waits", "tolist")
        GPU.settle()
        return self.host.tolist()

    def numpy(self, *_: object, **__: object) -> NoReturn:  # type: ignore[override]
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy it to the host first."
        )

    # The host's tensors record the graph: autograd's engine asks the driver about devices of another type.
    def requires_grad_(self, requires_grad: bool = True) -> DeviceTensor:
        self.host.requires_grad_(requires_grad)
        return self

    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        return self.host.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.host.requires_grad = value


class DeviceMode(TorchDispatchMode):
    """Sees operations that make tensors, which have no tensor among their arguments."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(function, args, kwargs or {})


def hosts(values: Any) -> Any:
    """Returns arguments with the host's tensors in place of a device's."""
    return tree_map(lambda one: one.host if isinstance(one, DeviceTensor) else one, values)


def on_host(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, graph: bool = False) -> Any:
    """Does an operation on the host. `graph`: autograd records it there, if a gradient is wanted."""
    graph = graph and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    excluded = [key for key in GRAPH_KEYS if graph and torch._C._dispatch_tls_is_dispatch_key_excluded(key)]
    for key in excluded:
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
    try:
        with torch._C._DisableTorchDispatch():
            return function(*args, **kwargs)
    finally:
        for key in excluded:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, True)


def run(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Does an operation by the rules of the devices of its tensors."""
    name = str(function)
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    devices = {one.device for one in tensors if isinstance(one, DeviceTensor)}
    asked = None if kwargs.get("device") is None else torch.device(kwargs["device"])
    if asked is not None and asked.type == "cuda" and asked.index is None:
        asked = torch.device("cuda", torch.cuda.current_device())
    if not devices and (asked is None or asked.type != "cuda"):
        if kwargs.get("pin_memory"):
            return pin(on_host(function, args, {**kwargs, "pin_memory": False}))
        return on_host(function, args, kwargs)
    if splits(function):
        with DeviceMode():
            found = function.decompose(*args, **kwargs)
        if found is not NotImplemented:
            return found
    if name == "aten._to_copy.default":
        return copied(args[0], asked or args[0].device, kwargs)
    if name == "aten.copy_.default":
        return copied_into(function, args, kwargs)
    check_devices(name, args, tensors, devices)
    if name in WAITS:
        if WAITS[name] == "item" and args[0].requires_grad:
            warnings.warn(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior", stacklevel=2
            )
        forbid(WAITS[name])
        note("waits", WAITS[name])
        GPU.settle()
    if has_kernel(function):
        launch(name)
    if asked is not None:
        kwargs = {**kwargs, "device": CPU}
    kernel = KERNELS.get(name, function)
    found = on_host(kernel, hosts(args), hosts(dict(kwargs)), graph=True)
    if has_kernel(function):
        record(lambda: on_host(kernel, hosts(args), hosts(dict(kwargs))), found)
    device = asked or next(iter(devices))
    return wrapped(function, found, device, [one for one in tensors if isinstance(one, DeviceTensor)])


def record(again: Callable[[], Any], found: Any) -> None:
    """Lets a graph that is being captured do an operation again, and write its results where the first ones are."""
    if (graph := captured()) is None:
        return
    made = [one for one in tree_leaves(found) if isinstance(one, torch.Tensor)]

    def step() -> None:
        with torch.inference_mode():
            results = [one for one in tree_leaves(again()) if isinstance(one, torch.Tensor)]
        for target, values in zip(made, results, strict=True):
            if target is not values:
                write(target, values)

    graph.add(step)


def launch(name: str) -> None:
    """Counts a launch, and fails if that is due."""
    note("launches", name.removeprefix("aten.").partition(".")[0])
    GPU.launched()


def check_devices(name: str, args: Sequence[Any], tensors: Sequence[torch.Tensor], devices: set[torch.device]) -> None:
    """Raises for tensors of several devices, as CUDA's kernels do, and notes indices that have to be copied or counted."""
    others = [one for one in tensors if not isinstance(one, DeviceTensor) and one.dim() > 0]
    if name in INDEXING and isinstance(args[0], DeviceTensor):
        indices = [one for one in args[1] if isinstance(one, torch.Tensor)]
        if any(one.dtype in (torch.bool, torch.uint8) for one in indices):
            note("waits", "mask as index")
        from_host = [one for one in others if any(one is index for index in indices)]
        others = [one for one in others if not any(one is index for index in from_host)]
        if from_host:
            note("to_device", "index")
            note("waits", "index from the host")
    if len(devices) > 1 or (devices and others):
        found = sorted({str(one.device) for one in tensors})
        shapes = ", ".join(f"{tuple(one.shape)} on {one.device}" for one in tensors)
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {' and '.join(found)}! "
            f"({name} at {place()}: {shapes})"
        )


def wrapped(function: Any, found: Any, device: torch.device, given: Sequence[DeviceTensor]) -> Any:
    """Returns the results of an operation as tensors of a device; one that was given is returned as it is."""
    known = {id(one.host): one for one in given}
    # A view of a tensor made outside inference mode is no inference tensor either.
    normal = is_view(function) and bool(given) and not given[0].is_inference()

    def wrap(one: object) -> object:
        if not isinstance(one, torch.Tensor):
            return one
        if id(one) in known:
            return known[id(one)]
        if normal:
            with torch.inference_mode(False):
                return DeviceTensor(one, device)
        made = DeviceTensor(one, device)
        if not is_view(function):
            GPU.take(made, one)
        return made

    return tree_map(wrap, found)


def copied(source: torch.Tensor, device: torch.device, kwargs: Mapping[str, Any]) -> torch.Tensor:
    """Copies a tensor to another device or number format."""
    blocking = not kwargs.get("non_blocking")
    inner = hosts(source)
    found: torch.Tensor = on_host(aten._to_copy.default, (inner,), {**kwargs, "device": CPU, "non_blocking": False}, graph=True)
    if device.type == "cpu" or not isinstance(source, DeviceTensor):
        forbid("a copy between host and device")
    if device.type == "cpu":
        note("to_host", "blocking" if blocking else "non-blocking")
        if blocking:
            note("waits", "copy to the host")
            GPU.settle()
        else:
            GPU.pin(found)
            GPU.copy_late(found, on_host(aten.clone.default, (found,), {}))
        return found
    if isinstance(source, DeviceTensor):
        launch("aten._to_copy.default")
        options = {**kwargs, "device": CPU, "non_blocking": False}
        record(lambda: on_host(aten._to_copy.default, (hosts(source),), options), found)
    else:
        pinned = is_pinned(source)
        note("to_device", "pinned" if pinned else "pageable")
        if blocking or not pinned:
            note("waits", "copy from pageable memory" if not pinned else "blocking copy to the device")
    made = DeviceTensor(found, device)
    GPU.take(made, found)
    return made


def copied_into(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """Copies a tensor into another one, which may be on another device."""
    target, source = args[:2]
    if isinstance(target, DeviceTensor) and not isinstance(source, DeviceTensor):
        forbid("a copy between host and device")
        pinned = is_pinned(source)
        note("to_device", "pinned" if pinned else "pageable")
        if source.dim() > 0 and not (pinned and (args[2:] or [kwargs.get("non_blocking")])[0]):
            note("waits", "blocking copy to the device" if pinned else "copy from pageable memory")
    elif isinstance(source, DeviceTensor) and not isinstance(target, DeviceTensor):
        note("to_host", "blocking")
        note("waits", "copy to the host")
        GPU.settle()
    else:
        launch("aten.copy_.default")
        record(lambda: on_host(function, hosts(args), kwargs), hosts(target))
    on_host(function, hosts(args), kwargs, graph=True)
    return target


def pin(tensor: torch.Tensor, *_: object) -> torch.Tensor:
    """Returns a copy in memory that a device reads by itself."""
    if isinstance(tensor, DeviceTensor):
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
    found: torch.Tensor = on_host(aten.clone.default, (tensor,), {})
    found._pinned = True  # type: ignore[attr-defined]
    GPU.pin(found)
    return found


def is_pinned(tensor: torch.Tensor, *_: object) -> bool:
    """Returns whether a tensor was made by `pin`."""
    return getattr(tensor, "_pinned", False)
