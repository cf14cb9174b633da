"""Puts the pretended GPU in the place of torch.cuda and of ONNX Runtime's CUDA provider, in all threads of this process."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tests.support.pretended_gpu.graphs import Graph, capture
from tests.support.pretended_gpu.memory import GPU, TOTAL_BYTES
from tests.support.pretended_gpu.recording import note, set_sync_debug_mode
from tests.support.pretended_gpu.tensors import DeviceMode, DeviceTensor, hosts, is_pinned, pin

PROPERTIES = SimpleNamespace(
    name="pretended GPU", total_memory=TOTAL_BYTES, major=9, minor=0, multi_processor_count=132, L2_cache_size=50 << 20
)
_of_thread = threading.local()


class Event:
    """Marks the copies that were started before it."""

    def __init__(self, *_: object, **__: object) -> None:
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def record(self, stream: object = None) -> None:
        self._copies = GPU.late()

    def synchronize(self) -> None:
        note("events", "event")
        GPU.settle(self._copies)

    def query(self) -> bool:
        return True

    def wait(self, stream: object = None) -> None:
        """Lets a stream wait, which is always done here."""


class Stream:
    """The only stream: work is done when it is started."""

    cuda_stream = 0

    def __init__(self, *_: object, **__: object) -> None:
        """Takes whatever a real one takes."""

    def synchronize(self) -> None:
        note("waits", "stream")
        GPU.settle()

    def wait_event(self, event: object) -> None:
        """Lets the stream wait, which is always done here."""

    wait_stream = wait_event


def current_device() -> int:
    return getattr(_of_thread, "device", 0)


def set_device(device: Any) -> None:
    _of_thread.device = device if isinstance(device, int) else torch.device(device).index


def exchange_device(device: int) -> int:
    """Sets the device of this thread if it is one, and returns the one before."""
    before = current_device()
    if device >= 0:
        set_device(device)
    return before


def synchronize(device: object = None) -> None:
    note("waits", "device")
    GPU.settle()


def set_fraction(fraction: float, device: object = None) -> None:
    """Limits the memory to a share of the total; 1 lifts the limit."""
    GPU.limit = None if fraction >= 1 else int(fraction * TOTAL_BYTES)
    if GPU.limit is None:
        GPU.allocated = 0


def host_memory_stats() -> dict[str, int]:
    """Returns what PyTorch 2.11 tells of the bytes of pinned memory."""
    return {"allocated_bytes.current": GPU.pinned, "active_bytes.current": GPU.active}


def install(devices: int = 2) -> None:
    """Pretends that there are so many GPUs. A process keeps them until it ends."""
    # `module.to` would otherwise put the memory into the old Parameter, which is no DeviceTensor.
    torch.__future__.set_swap_module_params_on_conversion(True)
    torch._C._ensureCUDADeviceGuardSet()
    torch._C._set_only_lift_cpu_tensors(True)
    pretended = {
        "_lazy_init": lambda: None,
        "_initialized": True,
        "is_initialized": lambda: True,
        "is_available": lambda: True,
        "init": lambda: None,
        "device_count": lambda: devices,
        "current_device": current_device,
        "set_device": set_device,
        "_exchange_device": exchange_device,
        "_maybe_exchange_device": exchange_device,
        "synchronize": synchronize,
        "Event": Event,
        "Stream": Stream,
        "CUDAGraph": Graph,
        "graph": capture,
        "stream": lambda stream: nullcontext(),
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "get_device_name": lambda device=None: PROPERTIES.name,
        "get_device_properties": lambda device=None: PROPERTIES,
        "get_device_capability": lambda device=None: (PROPERTIES.major, PROPERTIES.minor),
        "empty_cache": GPU.launched,
        "memory_allocated": lambda device=None: GPU.allocated,
        "memory_reserved": lambda device=None: GPU.allocated,
        "max_memory_allocated": lambda device=None: GPU.allocated,
        "reset_peak_memory_stats": lambda device=None: None,
        "mem_get_info": lambda device=None: (TOTAL_BYTES - GPU.allocated, TOTAL_BYTES),
        "set_per_process_memory_fraction": set_fraction,
        "host_memory_stats": host_memory_stats,
        "set_sync_debug_mode": set_sync_debug_mode,
    }
    for name, value in pretended.items():
        setattr(torch.cuda, name, value)
    torch.accelerator.empty_host_cache = GPU.release_pinned
    torch._C._is_cudnn_attention_decode_disabled = lambda: True  # type: ignore[attr-defined]
    torch.Tensor.pin_memory = pin  # type: ignore[method-assign, assignment]
    torch.Tensor.is_pinned = is_pinned  # type: ignore[method-assign, assignment]
    _pretend_gradients()
    _pretend_in_threads()
    _pretend_sessions()


def _pretend_gradients() -> None:
    """Lets the host's tensors, which have the graph, be differentiated."""
    real = torch.autograd.grad

    def grad(outputs: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        given = [one for one in tree_leaves((outputs, inputs)) if isinstance(one, DeviceTensor)]
        found = real(hosts(outputs), hosts(inputs), *hosts(rest), **hosts(options))
        if not given:
            return found
        return tuple(None if one is None else DeviceTensor(one, given[0].device) for one in found)

    torch.autograd.grad = grad


def _pretend_in_threads() -> None:
    """Lets all threads see operations that make tensors: modes belong to a thread."""
    run = threading.Thread.run

    def run_with_device(thread: threading.Thread) -> None:
        torch._C._set_only_lift_cpu_tensors(True)
        with DeviceMode():
            run(thread)

    threading.Thread.run = run_with_device  # type: ignore[method-assign]
    DeviceMode().__enter__()


def _pretend_sessions() -> None:
    """Lets ONNX Runtime's sessions say that they run on CUDA, and counts their waits."""
    try:
        import onnxruntime
    except ImportError:
        return
    real = onnxruntime.InferenceSession

    def goes_on(options: Any) -> bool:
        try:
            return bool(options.get_run_config_entry("disable_synchronize_execution_providers") == "1")
        except (AttributeError, RuntimeError):
            return False

    class Binding:
        def __init__(self, binding: Any) -> None:
            self.binding = binding

        def bind_input(self, name: str, device: str, number: int, *rest: Any) -> None:
            self.binding.bind_input(name, "cpu", 0, *rest)

        def bind_output(self, name: str, device: str, number: int, *rest: Any) -> None:
            self.binding.bind_output(name, "cpu", 0, *rest)

        def synchronize_outputs(self) -> None:
            note("waits", "outputs of a session")
            self.binding.synchronize_outputs()

    class Session:
        def __init__(self, content: Any, options: Any = None, providers: Any = (), **rest: Any) -> None:
            self._asked = [one if isinstance(one, str) else one[0] for one in providers]
            self._session = real(content, options, providers=["CPUExecutionProvider"], **rest)

        def get_providers(self) -> list[str]:
            return self._asked

        def io_binding(self) -> Binding:
            return Binding(self._session.io_binding())

        def run_with_iobinding(self, binding: Binding, options: Any = None) -> None:
            if self._asked[0].startswith("CUDA"):
                note("launches", "session")
                GPU.launched()
                if not goes_on(options):
                    note("waits", "end of a session")
                    GPU.settle()
                # Shrinking names a device's arena, which a session on the CPU does not have.
                options = None
            self._session.run_with_iobinding(binding.binding, options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._session, name)

    onnxruntime.InferenceSession = Session
    onnxruntime.preload_dlls = lambda *_, **__: None
