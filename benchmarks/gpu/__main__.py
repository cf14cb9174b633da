"""Reports on a GPU: the tests marked `gpu`, then our speed on the device, as shares of the device's limits.

    make gpu PYTHON=/path/to/python

Uses the interpreter's packages (torch, transformers; for more of the report pytest, prometheus_client, grpcio and the server's
other requirements) and installs nothing. Without a GPU it says so and ends with 0.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import torch
import transformers

from benchmarks.gpu.device import ROUNDS, Row, describe, measure_limits
from benchmarks.gpu.encoder import measure_encoder

LARGE = {"num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
TINY = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
LENGTHS = (128, 512)
ROWS = 128
STREAMED_TEXTS = 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="with --tiny, cpu tries this out on a machine without a GPU")
    parser.add_argument("--rows", type=int, default=ROWS, help="texts in a batch of the encoder alone")
    parser.add_argument("--tiny", action="store_true", help="shapes so small that the figures mean nothing")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: PyTorch sees no CUDA device here, so there is nothing to test or measure")
        return 0
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, Python {sys.version.split()[0]}"
    print(f"device {describe(device)}; {versions}")
    status = _tests() if device.type == "cuda" else 0
    _print(list(_measure(device, options.rows, tiny=options.tiny)))
    print(f"device {describe(device)} afterwards")
    return status


def _tests() -> int:
    if importlib.util.find_spec("pytest") is None:
        print("tests: not run, this interpreter has no pytest")
        return 0
    # Without the project's own settings: they name plugins that this interpreter may lack.
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir=.", "--import-mode=importlib"]
    return subprocess.run([*command, "-p", "no:cacheprovider", "tests/gpu"], check=False).returncode


def _measure(device: torch.device, rows: int, *, tiny: bool) -> Iterator[Row]:
    limits = measure_limits(device)
    yield from limits.rows()
    # Models are random: time depends on their shape alone.
    base, large = (transformers.BertConfig(**(TINY if tiny else shape)) for shape in ({}, LARGE))
    yield from measure_encoder(device, limits, rows, base)
    if missing := _missing("prometheus_client"):
        yield f"through the engine: not measured, {missing}", "", "", ""
    else:
        throughput = importlib.import_module("benchmarks.gpu.throughput")
        lengths, sizes = ((16,), (64, 128)) if tiny else (LENGTHS, throughput.BATCH_TOKENS)
        for name, config in (("bert-base", base), ("bert-large", large)):
            yield from throughput.measure_throughput(name, config, device, limits, lengths, sizes)
    if missing := _missing(
        "grpc", "grpc_health", "grpc_reflection", "grpc_status", "prometheus_client", "psutil", "pydantic_settings"
    ):
        yield f"over gRPC: not measured, {missing}", "", "", ""
    else:
        streaming = importlib.import_module("benchmarks.gpu.streaming")
        yield from streaming.measure_streaming(device, limits, 1 if tiny else STREAMED_TEXTS, 2 if tiny else 12)


def _missing(*packages: str) -> str:
    """Returns the packages that an interpreter lacks, in words; "" if it has them all."""
    lacking = [package for package in packages if importlib.util.find_spec(package) is None]
    return f"this interpreter has no {', '.join(lacking)}" if lacking else ""


def _print(rows: list[Row]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    print(f"\nmedians of {ROUNDS} rounds after warming up")
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
