"""Products of 8-bit integers on an emulated CPU without VNNI.

Variables hold PyTorch and oneDNN to fewer instructions, but ONNX Runtime and MKL ask the CPU itself.
"""

import os
import platform
import shutil
import subprocess
import sys

import pytest

from tests.support.integer_products import digest, onnx_product
from tests.support.patience import granted
from tools.capped_tests import ROOT

CPU = "Haswell"
SECONDS = granted(500)

PROGRAM = """
import torch
from bertscope_service.encoders.onnx.sessions import adds_bytes_exactly
from tests.support.integer_products import CPU, digest, integer_product, onnx_product
print(torch.backends.cpu.get_cpu_capability(), integer_product(CPU).__name__, digest(), adds_bytes_exactly(), onnx_product())
"""


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
