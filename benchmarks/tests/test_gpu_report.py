"""What the GPU report computes, tried on a CPU with tiny shapes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu.report import Part, Row, run_parts
from benchmarks.gpu.throughput import encoder_flops

CPU = torch.device("cpu")
SHAPE = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 80}


def config() -> transformers.BertConfig:
    return transformers.BertConfig(**SHAPE, attn_implementation="eager")


def test_the_operations_of_an_encoder_are_those_that_pytorch_counts() -> None:
    model = transformers.BertModel(config(), add_pooling_layer=False).eval()
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(input_ids=torch.full((3, 24), 7))
    assert encoder_flops(config(), 3 * 24, 24) == counter.get_total_flops()


@pytest.mark.slow
def test_a_part_that_takes_too_long_is_stopped_and_the_others_run(capsys: pytest.CaptureFixture[str]) -> None:
    def slow() -> Iterator[Row]:
        yield "first", "1", "", ""
        time.sleep(60)
        yield "second", "2", "", ""

    def broken() -> Iterator[Row]:
        raise ValueError("wrong shape")
        yield

    parts = [
        Part("slow", 1.0, slow),
        Part("broken", 60.0, broken),
        Part("lacking", 60.0, slow, ("no_such_package",)),
        Part("last", 60.0, lambda: iter([("x" * 200, "3", "", "")])),
    ]
    assert not run_parts(parts, 60.0)
    shown = capsys.readouterr().out
    assert "first" in shown and "second" not in shown
    assert "stopped: it may take 1 s" in shown
    assert "ValueError: wrong shape" in shown
    assert "this interpreter has no no_such_package" in shown
    assert "xxx..." in shown and max(map(len, shown.splitlines())) <= 120
    assert run_parts(parts[3:], 60.0)
    assert run_parts(parts[3:], 0.0) and "skipped" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("--device", "cpu", "--only", "profile"), ("--pretend", "--only", "waits")])
def test_the_report_runs_where_no_gpu_is(flags: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu", "--tiny", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert "bf16 matrix product" in done.stdout
    assert ("bert: questions launched without a wait" if "--pretend" in flags else "256 tokens: kernels") in done.stdout
    assert max(map(len, done.stdout.partition("limits of the device")[2].splitlines())) <= 120
