"""Runs parts of exported graphs as ONNX Runtime sessions that read and write torch tensors."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.device_memory import says_out_of_memory
from bertscope_service.errors import FailedPrecondition
from bertscope_service.observability.machine import memory_limit

logger = logging.getLogger(__name__)

FORMATS: dict[str, tuple[torch.dtype, Any]] = {
    "tensor(float)": (torch.float32, np.float32),
    "tensor(int64)": (torch.int64, np.int64),
    "tensor(int32)": (torch.int32, np.int32),
    "tensor(bool)": (torch.bool, np.bool_),
}
"""Number formats of inputs, by ONNX Runtime's names: PyTorch's and numpy's."""

SCORES: dict[str, tuple[torch.dtype, Any]] = {
    "tensor(float)": (torch.float32, np.float32),
    "tensor(float16)": (torch.float16, np.float16),
}
"""Number formats of outputs, likewise. They are read as float32."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of ONNX Runtime.

    weights: the folder that graphs refer to. threads: of a CPU, 0 for one per physical core. optimisation: the level of
    rewriting, one of `LEVELS`. tf32: whether a GPU rounds the factors of float32 products to TF32.
    """

    device: torch.device
    weights: Path
    threads: int = 0
    optimisation: str = "all"
    tf32: bool = False


LEVELS = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


SLOW_FUSIONS = "SkipLayerNormFusion;BiasGeluFusion"
"""Rewritings that ONNX Runtime does not do on a CPU: the fused operators take more time there than those that they replace, and
round otherwise, so that a graph and its parts, which have other operators at their ends, would differ."""


UNSIGNED_WEIGHTS = "session.x64quantprecision"
"""Stores 8-bit weights as unsigned: slower products, which no CPU overflows."""

CUDA_PROVIDER = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
"""The library of ONNX Runtime's CUDA provider, on Linux."""

DEFAULT_STREAM = "1"
"""CUDA's handle of its default stream (cudaStreamLegacy), which is PyTorch's, too, and never ends. PyTorch calls it 0, which
ONNX Runtime takes for no stream. ONNX Runtime keeps its own memory: only an extension in C++ could give it functions of
PyTorch's allocator (`gpu_external_alloc`)."""

PROBE = 64
"""Rows and columns of the matrix that `adds_bytes_exactly` tries."""

BOUNDED_SHARE = 0.25
"""The share of the memory that all runs of graphs by other programs may take together. All hosted models take far less for a
batch; a graph can compute how much it takes from its inputs, so that its trial shows nothing."""

_shrinking: list[None] = []
"""Not empty inside `shrinking`."""


@contextmanager
def shrinking() -> Iterator[None]:
    """Makes every run of any session inside the block return its memory, and memory kept from runs before, at its end;
    otherwise sessions keep it for their next run."""
    _shrinking.append(None)
    try:
        yield
    finally:
        _shrinking.pop()


def onnxruntime_version() -> str:
    """Returns the version of the library itself: its package is called onnxruntime or onnxruntime-gpu."""
    return str(onnxruntime.__version__)


@cache
def _bounded_arena() -> int:
    """Makes the memory that all sessions with a bound share, on the CPU. Returns its size, bytes: BOUNDED_SHARE of the
    machine's, or of the container's."""
    size = int(BOUNDED_SHARE * memory_limit())
    arena = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    onnxruntime.create_and_register_allocator(arena, onnxruntime.OrtArenaCfg({"max_mem": size, "arena_extend_strategy": 1}))
    return size


@cache
def adds_bytes_exactly() -> bool:
    """Tries whether ONNX Runtime's product of unsigned by signed bytes is exact on this CPU.

    Without VNNI, x86 CPUs add two products in 16 bits, which overflow.
    """
    codes, weights, product = "codes", "weights", "product"
    inputs = [onnx.helper.make_tensor_value_info(codes, onnx.TensorProto.UINT8, [1, PROBE])]
    outputs = [onnx.helper.make_tensor_value_info(product, onnx.TensorProto.INT32, [1, PROBE])]
    constant = onnx.numpy_helper.from_array(np.full((PROBE, PROBE), 127, np.int8), weights)
    node = onnx.helper.make_node("MatMulInteger", [codes, weights], [product])
    graph = onnx.helper.make_graph([node], "probe", inputs, outputs, [constant])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 18)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {codes: np.full((1, PROBE), 255, np.uint8)})
    return bool((found == PROBE * 255 * 127).all())


class Session:
    """A graph, ready to run on a device."""

    def __init__(
        self, graph: onnx.ModelProto | Path, settings: SessionSettings, *, keeps_memory: bool = True, bounded: bool = False
    ) -> None:
        """`keeps_memory`: whether it keeps the memory of a run for the next one; on a CPU. `bounded`: its runs, together with
        those of all such sessions, take no more than a part of the machine's memory, whatever the graph says.

        Raises FailedPrecondition for a graph that can't be run, or a GPU that ONNX Runtime can't use.
        """
        options = onnxruntime.SessionOptions()
        # As many as PyTorch's by default. The number is always given, or ONNX Runtime would pin its threads to cores, in every
        # session of every process to the same ones.
        options.intra_op_num_threads = settings.threads or torch.get_num_threads()
        if not adds_bytes_exactly():
            options.add_session_config_entry(UNSIGNED_WEIGHTS, "1")
        options.inter_op_num_threads = 1
        self._bound = _bounded_arena() if bounded else 0
        if bounded:
            options.add_session_config_entry("session.use_env_allocators", "1")
            options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")  # weights don't count
        options.enable_cpu_mem_arena = keeps_memory
        options.graph_optimization_level = LEVELS[settings.optimisation]
        options.log_severity_level = 4  # errors are raised
        # PyTorch's threads need the cores between two runs.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        if settings.device.type == "cpu":
            options.add_session_config_entry("optimization.disable_specified_optimizers", SLOW_FUSIONS)
        content: bytes | str = str(graph)
        if isinstance(graph, onnx.ModelProto):
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", f"{settings.weights}{os.sep}"
            )
            content = graph.SerializeToString()
        self._shrink = onnxruntime.RunOptions()
        arena = "cpu:0" if settings.device.type == "cpu" else f"gpu:{settings.device.index or 0}"
        self._shrink.add_run_config_entry("memory.enable_memory_arena_shrinkage", arena)
        self._go_on: onnxruntime.RunOptions | None = None
        if settings.device.type == "cuda":
            self._go_on = onnxruntime.RunOptions()
            self._go_on.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self._device = settings.device
        self._source = graph if isinstance(graph, Path) else settings.weights
        if self._device.type == "cuda":
            load_cuda_libraries()
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=providers(settings.device, tf32=settings.tf32)
            )
        except Exception as error:  # one class for each of its status codes, all handled alike
            if says_out_of_memory(error):
                message = f"the ONNX graphs in {self._source} do not fit into the memory of {self._device} now; unload a model"
                raise FailedPrecondition(message, "DEVICE_MEMORY", source=self._source) from error
            raise unreadable(self._source, error) from error
        check_provider(self._session.get_providers(), settings.device)
        self.outputs = {value.name: SCORES.get(value.type) for value in self._session.get_outputs()}
        self.inputs = {value.name: FORMATS.get(value.type) for value in self._session.get_inputs()}
        self._refuse([value for value in self._session.get_inputs() if value.type not in FORMATS])

    def check_outputs(self, names: Sequence[str]) -> None:
        """Raises FailedPrecondition for an output that is not of floats."""
        self._refuse([value for value in self._session.get_outputs() if value.name in names and value.type not in SCORES])

    def _refuse(self, strange: Sequence[Any]) -> None:
        if strange:
            message = f"{strange[0].name} is {strange[0].type}, which bertscope does not pass; use int64 and float32"
            raise unreadable(self._source, TypeError(message))

    def run(self, feeds: Mapping[str, torch.Tensor], fetch: Mapping[str, Sequence[int]]) -> dict[str, torch.Tensor]:
        """Returns some outputs, by name, for some inputs; all are on the device. `fetch` gives the outputs' shapes; they are
        float32. ONNX Runtime gets addresses: it rejects an output of another shape, but does not know its size in bytes.

        Inputs that the graph does not have are ignored. Raises FailedPrecondition if the graph can't be run,
        torch.OutOfMemoryError.
        """
        binding, index = self._session.io_binding(), self._device.index or 0
        placed = {}
        formats = {name: self.outputs.get(name) or SCORES["tensor(float)"] for name in fetch}
        outputs = {name: torch.empty(tuple(fetch[name]), dtype=form[0], device=self._device) for name, form in formats.items()}
        for name, tensor in feeds.items():
            form = self.inputs.get(name)
            if form is not None:
                # Kept until the run is over: ONNX Runtime holds only the address.
                placed[name] = tensor = tensor.to(self._device, form[0]).contiguous()
                binding.bind_input(name, self._device.type, index, form[1], tensor.shape, tensor.data_ptr())
        for name, tensor in outputs.items():
            binding.bind_output(name, self._device.type, index, formats[name][1], tensor.shape, tensor.data_ptr())
        # On PyTorch's default stream, ONNX Runtime's work follows what made its inputs, and what reads its outputs follows it:
        # nobody waits. Their memory may be used again at once, too: by work that follows.
        apart = self._device.type == "cuda" and torch.cuda.current_stream(self._device).cuda_stream != 0
        if apart:
            torch.cuda.current_stream(self._device).synchronize()
        try:
            # A run that returns its memory waits for its end.
            self._session.run_with_iobinding(binding, self._shrink if _shrinking else self._go_on)
        except Exception as error:
            if says_out_of_memory(error):
                bound = f" within the {self._bound} bytes of graphs by other programs" if self._bound else ""
                shapes = {name: tuple(tensor.shape) for name, tensor in placed.items()}
                logger.warning("%s found no memory%s, run with inputs of %s", self._source, bound, shapes)
                raise torch.OutOfMemoryError(f"ONNX Runtime found no memory on {self._device}") from error
            raise unreadable(self._source, error) from error
        if apart:
            binding.synchronize_outputs()
        return {name: tensor.float() for name, tensor in outputs.items()}

    def try_run(self, feeds: Mapping[str, torch.Tensor]) -> dict[str, NDArray[Any]]:
        """Returns all outputs for some inputs, on a CPU, whatever their shapes, which a file need not declare. Raises
        FailedPrecondition if it can't be run."""
        placed = {name: feeds[name].to(form[0]).numpy() for name, form in self.inputs.items() if form is not None}
        try:
            found = self._session.run(None, placed)
        except Exception as error:
            raise unreadable(self._source, error) from error
        return dict(zip(self.outputs, found, strict=True))


def providers(device: torch.device, *, tf32: bool = False) -> list[Any]:
    """Returns ONNX Runtime's provider for a device, without a fallback."""
    if device.type == "cuda":
        # ONNX Runtime rounds the factors of fp32 products to TF32 unless told otherwise; PyTorch does not.
        options = {"device_id": device.index or 0, "use_tf32": int(tf32), "user_compute_stream": DEFAULT_STREAM}
        return [("CUDAExecutionProvider", options), "CPUExecutionProvider"]
    return ["CPUExecutionProvider"]


@cache
def load_cuda_libraries() -> None:
    """Loads the CUDA libraries of installed packages, once: the provider names them, but not where they lie. PyTorch loads
    most of them, but not all."""
    onnxruntime.preload_dlls()


def cuda_problem() -> str:
    """Returns why the library of ONNX Runtime's CUDA provider can't be loaded, naming the missing one; "" if it can."""
    try:
        ctypes.CDLL(str(CUDA_PROVIDER))
    except OSError as error:
        return f"{error}; install what has it (pip install nvidia-curand has libcurand, PyTorch for CUDA 13 the others)"
    return ""


def check_provider(running: Sequence[str], device: torch.device) -> None:
    """Raises FailedPrecondition if a session does not run on its device.

    ONNX Runtime lists CUDA wherever it was built with it, and silently falls back to the CPU if it can't start it, as with
    libraries of another CUDA version; only a session knows.
    """
    if device.type == "cuda" and "CUDAExecutionProvider" not in running:
        why = cuda_problem() or f"it is built for CUDA {onnxruntime.cuda_version} and cuDNN 9; its own words are in the log"
        message = f"ONNX Runtime {onnxruntime.__version__} can't use {device}: {why}; or use runtime torch or device cpu"
        raise FailedPrecondition(message, "DEVICE_NOT_FOUND", device=device, runtime="onnx")


def unreadable(source: Path, error: Exception) -> FailedPrecondition:
    """Returns the error for a graph or its weights."""
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    message = f"the ONNX graphs in {source} can't be run: {line}; export them again"
    return FailedPrecondition(message, "SOURCE_UNREADABLE", source=source)
