"""Reports on a GPU: our speed as shares of what the device can do, and the tests marked `gpu`, in under ten minutes.

    make gpu PYTHON=/path/to/python

Uses the interpreter's packages (torch, transformers; for more of the report pytest, prometheus_client, grpcio and the server's
other requirements) and installs nothing. Without a GPU it says so and ends with 0. It ends with 1 if a test fails, a question
waits for the device in its launch, or a part can't be measured; a goal that is missed is told, and is no failure.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

from benchmarks.gpu.device import ROUNDS, Limits, describe, measure_limits
from benchmarks.gpu.report import Part, Row, print_row, run_parts

LARGE = {"num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
TINY = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
ROWS = 32
SECONDS = 570.0
LENGTH = 128

ENGINE = ("prometheus_client",)
SERVER = ("grpc", "grpc_health", "grpc_reflection", "grpc_status", "prometheus_client", "psutil", "pydantic_settings")
ONNX = ("onnxruntime", "onnxscript", "psutil")

IN_PROCESS, OVER_GRPC, MIXED = 0.5, 0.85, 0.8
"""Goals: shares of the bf16 peak, of that rate, and of that for equal lengths."""


@dataclass(slots=True)
class Report:
    """A run of the report: its options, and what was found so far. rates: over gRPC, tokens per second of equal and of mixed
    lengths."""

    device: torch.device
    tiny: bool
    pretended: bool
    limits: Limits = field(default_factory=lambda: Limits(1.0, 1.0))
    in_process: tuple[float, float] = (0.0, 0.0)
    """Tokens per second of a bert-base and texts of LENGTH tokens at the best batch, and its share of the bf16 peak."""
    rates: list[Any] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def parts(self) -> list[Part]:
        """Returns the parts in the order of what they tell; a server in another process has no pretended GPU."""
        served = (
            []
            if self.pretended
            else [
                Part("over gRPC, a bert-base in bf16: client and server on this machine", 90, self.over_grpc, SERVER),
                Part("attention maps over gRPC", 45, self.maps, SERVER),
            ]
        )
        return [
            Part("limits of the device", 30, self.device_limits),
            Part("waits inside launches", 60, self.waits),
            Part("through the engine, in bf16", 120, self.throughput, ENGINE),
            *served[:1],
            Part(f"profile of FillMask, a bert-base in bf16, texts of {LENGTH}", 60, self.profile, ENGINE),
            Part("CUDA graphs, a bert-base in bf16", 45, self.graphs, ENGINE),
            Part("ONNX Runtime beside PyTorch, a bert-base", 120, self.runtimes, ONNX),
            *served[1:],
            Part("goals for a bert-base and texts of 128 tokens", 5, self.goals),
        ]

    def shape(self, **settings: int) -> transformers.BertConfig:
        return transformers.BertConfig(**(TINY if self.tiny else settings))

    def device_limits(self) -> Iterator[Row]:
        self.limits = measure_limits(self.device, tiny=self.tiny)
        yield from self.limits.rows()

    def waits(self) -> Iterator[Row]:
        waits = importlib.import_module("benchmarks.gpu.waits")
        yield from waits.measure_waits(self.device, ("bert",) if self.tiny else ("bert", "modernbert", "deberta"), self.failed)

    def throughput(self) -> Iterator[Row]:
        throughput = importlib.import_module("benchmarks.gpu.throughput")
        sizes = (64, 128) if self.tiny else throughput.BATCH_TOKENS
        for name, config, lengths in (
            ("bert-base", self.shape(), (LENGTH, 512)),
            ("bert-large", self.shape(**LARGE), (LENGTH,)),
        ):
            encoder = throughput.random_cloze(config, self.device, "bf16")
            encoder.capture()  # as the server does
            for length in (16,) if self.tiny else lengths:
                rates: list[Any] = []
                yield from throughput.measure_throughput(name, config, encoder, self.limits, length, sizes, rates)
                if name == "bert-base" and length in (16, LENGTH):
                    self.in_process = rates[-1]

    def over_grpc(self) -> Iterator[Row]:
        rates = importlib.import_module("benchmarks.gpu.grpc_rates")
        load = rates.Load(4, 8, 16) if self.tiny else rates.Load(256, 100, LENGTH)
        layers = 2 if self.tiny else 12
        yield from rates.measure_grpc(self.device, "bf16", layers, load, self.in_process[0], self.rates)

    def profile(self) -> Iterator[Row]:
        profile, throughput = (importlib.import_module(f"benchmarks.gpu.{name}") for name in ("profile", "throughput"))
        encoder = throughput.random_cloze(self.shape(), self.device, "bf16")
        encoder.capture()
        sizes, kernels = (256,) if self.tiny else (512, 4096, 16_384), self.device.type == "cuda" and not self.pretended
        yield from profile.measure_profile(encoder, LENGTH, sizes, kernels=kernels)

    def graphs(self) -> Iterator[Row]:
        graphs, throughput = (importlib.import_module(f"benchmarks.gpu.{name}") for name in ("graphs", "throughput"))
        encoder = throughput.random_cloze(self.shape(), self.device, "bf16")
        yield from graphs.measure_graphs(encoder, 16 if self.tiny else LENGTH, (1, 4) if self.tiny else (1, 4, 32, 64, 128))

    def runtimes(self) -> Iterator[Row]:
        runtimes = importlib.import_module("benchmarks.gpu.runtimes")
        precisions = ("fp32", "tf32") if self.device.type == "cuda" and not self.pretended else ("fp32",)
        rows, layers = (2, 2) if self.tiny else (ROWS, 12)
        yield from runtimes.measure_runtimes(self.device, layers, rows, 16 if self.tiny else LENGTH, precisions)

    def maps(self) -> Iterator[Row]:
        streaming = importlib.import_module("benchmarks.gpu.streaming")
        yield from streaming.measure_streaming(self.device, self.limits, 1 if self.tiny else 2, 2 if self.tiny else 12)

    def goals(self) -> Iterator[Row]:
        """Yields the goals beside what was measured."""
        tokens, share = self.in_process
        yield goal("in the process, of the bf16 peak", share, IN_PROCESS)
        equal, mixed = (self.rates[0].equal, self.rates[0].mixed) if self.rates else (0.0, 0.0)
        yield goal("over gRPC, of the rate in the process", equal / tokens if tokens else 0.0, OVER_GRPC)
        yield goal("over gRPC with mixed lengths, of equal ones", mixed / equal if equal else 0.0, MIXED)


def goal(what: str, found: float, wanted: float) -> Row:
    """Returns the row of a goal; 0 is not measured."""
    if not found:
        return what, "not measured", f"at least {wanted:.2f}", ""
    return what, f"{found:.2f}", f"at least {wanted:.2f}", "met" if found >= wanted else "missed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="with --tiny, cpu tries this out on a machine without a GPU")
    parser.add_argument("--tiny", action="store_true", help="shapes so small that the figures mean nothing")
    parser.add_argument("--pretend", action="store_true", help="with --tiny: on a pretended GPU, as in the tests")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time for everything; what is left over is skipped")
    parser.add_argument(
        "--only", metavar="WORD", action="append", help="measure parts with that word in their heading; repeatable"
    )
    parser.add_argument("--no-tests", action="store_true", help="measure alone")
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    transformers.utils.logging.disable_progress_bar()
    if options.pretend:
        importlib.import_module("tests.support.pretended_gpu.driver").install()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: PyTorch sees no CUDA device here, so there is nothing to test or measure")
        return 0
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, Python {sys.version.split()[0]}"
    print(f"{describe(device)}\n{versions}\nmedians of {ROUNDS} rounds after warming up, unless a row says otherwise\n")
    print_row(("what / beside what", "measured", "beside", "share"))
    report = Report(device, options.tiny, options.pretend)
    first, *others = report.parts()
    parts = [first, *(part for part in others if not options.only or any(word in part.name for word in options.only))]
    passed = run_parts(parts, options.seconds)
    print(f"\n{describe(device)}, afterwards")
    tested = (
        device.type != "cuda" or options.pretend or options.no_tests or bool(options.only) or _tests(ends - time.monotonic())
    )
    for failure in report.failed:
        print(f"failed: {failure}")
    return 0 if passed and tested and not report.failed else 1


def _tests(seconds: float) -> bool:
    """Runs the tests for a GPU. Returns False if one fails."""
    if importlib.util.find_spec("pytest") is None:
        print("tests: not run, this interpreter has no pytest")
        return True
    # Without the project's own settings: they name plugins that this interpreter may lack.
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-c", "/dev/null", "--rootdir=.", "--import-mode=importlib"]
    command += ["-p", "no:cacheprovider", "tests/gpu"]
    try:
        return subprocess.run(command, check=False, timeout=max(30.0, seconds)).returncode == 0
    except subprocess.TimeoutExpired:
        print(f"tests: stopped, the report's time is over; alone: {' '.join(command)}")
        return True


if __name__ == "__main__":
    sys.exit(main())
