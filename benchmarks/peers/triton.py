"""Runs NVIDIA's Triton from the wheel of PyTriton: the server itself and its Python backend, without PyTriton's proxy
between."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime

from benchmarks.lib.environments import PYTHON, UnavailableError, interpreter, library_folder
from benchmarks.lib.processes import ROOT, process
from benchmarks.peers.running import MODEL, Running, Setting, Written, wait_until_ready
from tools.deploy.programs import free_port

PACKAGES = ("nvidia-pytriton>=0.7.0", f"onnxruntime=={onnxruntime.__version__}")
MAX_BATCH = 64


@dataclass(frozen=True, slots=True)
class Triton:
    """Instances of the model, each a process, and the number of ONNX Runtime threads in each."""

    instances: int
    threads: int

    @property
    def title(self) -> str:
        return f"{self.instances} x {self.threads} threads"

    @contextlib.contextmanager
    def start(self, model: Written, environments: Path, scratch: Path) -> Iterator[Running]:
        """Starts the server, which batches all waiting requests without a delay. Raises UnavailableError."""
        python = interpreter(environments / "triton", PACKAGES)
        packages = python.parents[1] / "lib" / f"python{PYTHON}" / "site-packages"
        wheel, log = packages / "pytriton" / "tritonserver", scratch / "log"
        repository, backends = scratch / "repository", scratch / "backends"
        if not wheel.is_dir():
            raise UnavailableError(f"{wheel} is missing: PyTriton's wheel has another layout")
        # The backend looks for the stub, which is made for one version of Python, in its own folder.
        shutil.copytree(wheel / "backends" / "python", backends / "python")
        shutil.copy(wheel / "python_backend_stubs" / PYTHON / "triton_python_backend_stub", backends / "python")
        version = repository / MODEL / "1"
        version.mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("triton_model.py"), version / "model.py")
        (repository / MODEL / "config.pbtxt").write_text(self._config(model.graph))
        target = f"127.0.0.1:{free_port()}"
        command = [
            str(wheel / "bin" / "tritonserver"),
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            "--grpc-address=127.0.0.1",
            f"--grpc-port={target.rpartition(':')[2]}",
            "--allow-http=false",
            "--allow-metrics=false",
            "--log-info=false",
            "--disable-auto-complete-config",
        ]
        environment = {
            # The stub takes its packages from the first Python on the path.
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "LD_LIBRARY_PATH": f"{packages / 'nvidia_pytriton.libs'}:{library_folder(python)}",
        }
        with process(command, log, environment) as started:
            wait_until_ready(started, target, log)
            yield Running(target, (started,))

    def _config(self, file: Path) -> str:
        graph = onnx.load(str(file), load_external_data=False).graph
        inputs = ", ".join(
            # Texts of different lengths may share a batch: the model pads them.
            f'{{ name: "{value.name}" data_type: TYPE_INT64 dims: {_dims(value)} allow_ragged_batch: true }}'
            for value in graph.input
        )
        outputs = ", ".join(f'{{ name: "{value.name}" data_type: TYPE_FP32 dims: {_dims(value)} }}' for value in graph.output)
        return f"""
            name: "{MODEL}" backend: "python" max_batch_size: {MAX_BATCH}
            input [ {inputs} ]
            output [ {outputs} ]
            dynamic_batching {{ max_queue_delay_microseconds: 0 }}
            instance_group [ {{ kind: KIND_CPU count: {self.instances} }} ]
            parameters {{ key: "file" value: {{ string_value: "{file}" }} }}
            parameters {{ key: "threads" value: {{ string_value: "{self.threads}" }} }}
        """


def _dims(value: onnx.ValueInfoProto) -> list[int]:
    """Returns the dimensions after the first, which counts texts; -1 stands for any size."""
    return [dim.dim_value or -1 for dim in value.type.tensor_type.shape.dim][1:]


def settings(threads: int) -> list[Setting]:
    """Returns the settings to try: one instance with all threads, or two that share them."""
    return [Triton(1, threads), Triton(2, max(1, threads // 2))]
