"""ONNX Runtime's CUDA provider: its libraries are installed, a missing one is named, graphs for the CPU alone are refused.

They need no GPU.
"""

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import torch
from bertscope_service.encoders.onnx import sessions
from bertscope_service.encoders.onnx.gpu_operators import check_operators
from bertscope_service.errors import FailedPrecondition, Unsupported

from tests.support.patience import granted

GPU, CPU = torch.device("cuda:0"), torch.device("cpu")
LOAD = """
from bertscope_service.encoders.onnx.sessions import cuda_problem, load_cuda_libraries
load_cuda_libraries()
print(cuda_problem())
"""


@pytest.mark.skipif(not sessions.CUDA_PROVIDER.exists(), reason="this ONNX Runtime has no CUDA provider")
@pytest.mark.skipif((torch.version.cuda or "")[:3] != "13.", reason="this PyTorch brings no libraries of CUDA 13")
@pytest.mark.slow
def test_nothing_but_the_driver_is_missing() -> None:
    """In a process of its own, which has loaded no library of CUDA yet."""
    said = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, timeout=granted(60), check=True
    ).stdout.strip()
    assert said == "" or said.startswith("libcuda.so.1: "), said


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime itself would go on on the CPU."""
    assert sessions.providers(GPU)[0] == ("CUDAExecutionProvider", {"device_id": 0, "use_tf32": 0, "user_compute_stream": "1"})
    sessions.check_provider(["CUDAExecutionProvider", "CPUExecutionProvider"], GPU)
    sessions.check_provider(["CPUExecutionProvider"], CPU)
    with pytest.raises(FailedPrecondition, match="CUDA 13"):
        sessions.check_provider(["CPUExecutionProvider"], GPU)
    monkeypatch.setattr(sessions, "CUDA_PROVIDER", Path("/nowhere/libcurand.so.10"))
    with pytest.raises(FailedPrecondition, match=r"can't use cuda:0: .*libcurand\.so\.10.*nvidia-curand.*device cpu") as caught:
        sessions.check_provider(["CPUExecutionProvider"], GPU)
    assert caught.value.reason == "DEVICE_NOT_FOUND"


def graph(*operators: str) -> onnx.ModelProto:
    nodes = [onnx.helper.make_node(name, ["a"], [f"b{index}"]) for index, name in enumerate(operators)]
    return onnx.helper.make_model(onnx.helper.make_graph(nodes, "graph", [], []))


def test_graphs_in_8_bits_are_refused_on_a_gpu() -> None:
    quantised = graph("Gather", "DynamicQuantizeLinear", "MatMulInteger")
    check_operators([quantised], CPU, Path("folder"))
    check_operators([graph("Gather", "MatMul", "DequantizeLinear")], GPU, Path("folder"))
    with pytest.raises(Unsupported, match=r"8 bits \(DynamicQuantizeLinear, MatMulInteger\).*half precision") as caught:
        check_operators([graph("MatMul"), quantised], GPU, Path("folder"))
    assert caught.value.reason == "PRECISION_UNSUPPORTED"
