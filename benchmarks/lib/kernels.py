"""Says which kernels the libraries chose on this machine: the same figures can't be expected of others."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import torch
from bertscope_service.encoders.onnx.sessions import adds_bytes_exactly, onnxruntime_version
from bertscope_service.encoders.torch.integer_products import (
    FloatProduct,
    HalvesProduct,
    SplitProduct,
    WholeProduct,
    integer_product,
)
from bertscope_service.encoders.torch.packing import can_pack
from threadpoolctl import threadpool_info

ONE_PRODUCT = """
import torch
weight = torch.ops.mkldnn._reorder_linear_weight(torch.ones(64, 64), None)
torch.ops.mkldnn._linear_pointwise(torch.ones(8, 64), weight, None, "none", [], "")
"""
INT8 = {
    WholeProduct: "unsigned by signed bytes, VNNI",
    SplitProduct: "unsigned by signed bytes in parts, as oneDNN rounds larger sums here",
    HalvesProduct: "bytes in two halves, no VNNI: no faster than fp32",
    FloatProduct: "as float32: no faster than fp32",
}


@cache
def kernels() -> list[str]:
    """Returns a line for PyTorch, one for ONNX Runtime and one for numpy."""
    mkl = re.search(r"(?:Math Kernel Library|MKL) Version ([\d.]+)", torch.__config__.show())
    packed = [name for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)) if can_pack(dtype)]
    int8 = "unsigned by signed bytes" if adds_bytes_exactly() else "unsigned by unsigned bytes, as signed ones overflow here"
    of_torch = (
        f"{torch.backends.cpu.get_cpu_capability()} kernels",
        f"MKL {mkl[1]}" if mkl else "no MKL",
        onednn(),
        f"linear layers packed for oneDNN in {' and '.join(packed) or 'no format'}",
        f"int8: {INT8[integer_product(torch.device('cpu'))]}",
    )
    return [
        f"PyTorch: {'; '.join(of_torch)}",
        f"ONNX Runtime {onnxruntime_version()}: MLAS, which asks the CPU itself and does not say what it chose; int8: {int8}",
        f"numpy: {', '.join(blas()) or 'no BLAS that names itself'}",
    ]


def onednn() -> str:
    """Returns oneDNN's version, its instruction set and the kernel of one packed product, as it logs them itself."""
    program = f"import os\nos.environ['ONEDNN_VERBOSE'] = '1'\n{ONE_PRODUCT}"
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    found = {
        name: re.search(pattern, ran.stdout, re.MULTILINE)
        for name, pattern in {
            "oneDNN": r"info,oneDNN v([\d.]+)",
            "instructions": r"info,cpu,isa:([^\n]+)",
            "kernel": r"exec,cpu,(?:inner_product|matmul),([^,]+),",
        }.items()
    }
    return ", ".join(f"{name} {match[1]}" for name, match in found.items() if match) or "no oneDNN"


def blas() -> list[str]:
    """Returns the BLAS libraries in this process that name their kernels."""
    found = {
        f"{one['internal_api']} {one.get('version')} for {one['architecture']}"
        for one in threadpool_info()
        if one.get("architecture")
    }
    return sorted(found)
