"""Products of 8-bit integers on an emulated CPU without VNNI.

Variables hold PyTorch and oneDNN to fewer instructions, but ONNX Runtime and MKL ask the CPU itself.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.encoders.test_integer_products import digest
from tools.capped_tests import ROOT

CPU = "Haswell"
SECONDS = 500

PROGRAM = """
import torch
from bertscope_service.encoders.onnx.sessions import adds_bytes_exactly
from tests.integration.encoders.test_emulated_cpu import onnx_product
from tests.unit.encoders.test_integer_products import CPU, digest, integer_product
print(torch.backends.cpu.get_cpu_capability(), integer_product(CPU).__name__, digest(), adds_bytes_exactly(), onnx_product())
"""


def onnx_product() -> float:
    """The largest error of our own int8 graph's product, by ONNX Runtime, for inputs and weights that are integers."""
    import numpy as np
    import onnx
    import torch
    from bertscope_service.compression.onnx.quantize import quantize_int8
    from bertscope_service.encoders.onnx.sessions import Session, SessionSettings

    rng = np.random.default_rng(0)
    x, weight = (rng.choice([-127.0, 127.0, 5.0], size).astype(np.float32) for size in ((9, 256), (256, 64)))
    x[:, 0], weight[0] = 127, 127  # so that a step is 1 in every row and column
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [9, width]) for name, width in (("x", 256), ("y", 64))
    ]
    node = onnx.helper.make_node("MatMul", ["x", "weight"], ["y"])
    graph = onnx.helper.make_graph([node], "product", values[:1], values[1:], [onnx.numpy_helper.from_array(weight, "weight")])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 21)])
    session = Session(quantize_int8(model), SessionSettings(torch.device("cpu"), Path("/"), threads=1))
    found = session.run({"x": torch.from_numpy(x)}, {"y": (9, 64)})["y"].numpy()
    return float(np.abs(found - x.astype(np.float64) @ weight).max())


def test_our_graph_is_exact_here() -> None:
    assert onnx_product() == 0


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 20)
def test_a_cpu_without_vnni_gives_the_same_numbers() -> None:
    emulator = shutil.which("qemu-x86_64")
    if emulator is None or platform.machine() != "x86_64":
        pytest.skip("needs qemu-x86_64, Debian's qemu-user, on an x86 CPU")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))}
    ran = subprocess.run(
        [emulator, "-cpu", CPU, os.path.realpath(sys.executable), "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["AVX2", "HalvesProduct", digest(), "False", "0.0"]
