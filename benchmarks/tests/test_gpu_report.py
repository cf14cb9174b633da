"""What the GPU report computes, tried on a CPU with tiny shapes."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu import device
from benchmarks.gpu import waits as waiting
from benchmarks.gpu.__main__ import goal
from benchmarks.gpu.device import Limits
from benchmarks.gpu.encoder import encoder_flops, measure_encoder
from benchmarks.gpu.profile import covered
from benchmarks.gpu.report import Part, Row, run_parts
from benchmarks.gpu.throughput import Run, measure_throughput, middle, random_cloze, waits

CPU = torch.device("cpu")
SHAPE = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 80}
FORMATS = ("fp32", "bf16", "fp16")
LIMITS = Limits(flops=1e12, copy_bytes=1e10)


def config() -> transformers.BertConfig:
    return transformers.BertConfig(**SHAPE, attn_implementation="eager")


def test_the_operations_of_an_encoder_are_those_that_pytorch_counts() -> None:
    model = transformers.BertModel(config(), add_pooling_layer=False).eval()
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(input_ids=torch.full((3, 24), 7))
    assert encoder_flops(config(), 3 * 24, 24) == counter.get_total_flops()


def test_throughput_and_the_hosts_share_have_a_row_for_each_size_of_batch() -> None:
    best: list[tuple[float, float]] = []
    encoder = random_cloze(config(), CPU, "bf16")
    rows = list(measure_throughput("tiny", config(), encoder, LIMITS, 16, (32, 64), best))
    assert [what for what, *_ in rows[::2]] == [f"tiny, texts of 16, batches of {size} tokens / the peak" for size in (32, 64)]
    for (_, done, flops, share), (host_row, spent, whole, host) in zip(rows[::2], rows[1::2], strict=True):
        assert "tokens/s" in done and flops.endswith("TFLOP/s") and share.endswith("%")
        assert "did not wait" in host_row
        assert whole == f"of {spent}" and host == "100%"  # a CPU has no events to wait for
    ((rate, share_of_peak),) = best
    assert f"{rate:,.0f} tokens/s" in {done for _, done, *_ in rows}
    assert 0 < share_of_peak < 1


@pytest.mark.slow
def test_the_encoder_alone_has_rows_in_every_number_format() -> None:
    rows = list(measure_encoder(CPU, LIMITS, 1, config()))
    counts = Counter(precision for what, *_ in rows for precision in FORMATS if f"{precision}, 1 x 128" in what)
    assert counts == dict.fromkeys(FORMATS, 4)


def test_waiting_for_an_event_is_timed_and_the_event_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    monkeypatch.setattr(torch.cuda.Event, "synchronize", called.append)
    before = torch.cuda.Event.synchronize
    event = object()
    with waits() as waited:
        torch.cuda.Event.synchronize(event)  # type: ignore[arg-type]
    assert called == [event]
    assert len(waited) == 1 and waited[0] >= 0
    assert torch.cuda.Event.synchronize is before


def test_the_middle_run_is_that_of_the_median_time() -> None:
    assert middle([Run(3.0, 1.0), Run(1.0, 0.5), Run(2.0, 0.1)]) == Run(2.0, 0.1)


def test_what_lies_in_several_spans_counts_once() -> None:
    assert covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.6)]) == 4.0
    assert covered([]) == 0


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


def test_a_goal_is_met_missed_or_not_measured() -> None:
    assert [goal("of the peak", found, 0.5)[1:] for found in (0.51, 0.49, 0.0)] == [
        ("0.51", "at least 0.50", "met"),
        ("0.49", "at least 0.50", "missed"),
        ("not measured", "at least 0.50", ""),
    ]


def test_a_question_that_waits_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's refusal is the waiting question's; other errors are the report's own."""
    gpu = SimpleNamespace(device=torch.device("cuda:0"))
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(waiting, "load_encoder", lambda *_, **__: gpu)

    def launched(_: object, question: str, *__: object) -> None:
        if question == "Inspect":
            raise RuntimeError("called a synchronizing CUDA operation")

    asked = SimpleNamespace(
        sequences=lambda *_: [],
        answers=lambda *_: [],
        gates=lambda *_: None,
        offered=lambda _: ["FillMask", "Inspect"],
        launched=launched,
    )
    support = {"questions_of_rows": asked, "tiny": SimpleNamespace(write_checkpoint=lambda *_: None)}
    monkeypatch.setattr(waiting, "_support", support.__getitem__)
    failed: list[str] = []
    rows = list(waiting.measure_waits(gpu.device, ("bert",), failed))
    assert failed == [f"Inspect{manner} on bert waits for the device in its launch" for manner in ("", ", sites changed")]
    assert rows[0] == ("bert: Inspect", "called a synchronizing CUDA operation", "", "waits")
    assert rows[2][1:] == ("2", "of 4", "")
    assert modes == ["error", "default"] * 4


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("--device", "cpu", "--only", "profile"), ("--pretend", "--only", "waits")])
def test_the_report_runs_where_no_gpu_is(flags: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu", "--tiny", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert "bf16 matrix product" in done.stdout
    assert ("bert: questions launched without a wait" if "--pretend" in flags else "256 tokens: kernels") in done.stdout
    assert max(map(len, done.stdout.partition("limits of the device")[2].splitlines())) <= 120


def test_a_card_is_described_with_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(name="Card", major=9, minor=0, total_memory=80 << 30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    monkeypatch.setattr(device.shutil, "which", lambda _: None)
    plain = "Card, capability 9.0, 80 GiB"
    assert device.describe(torch.device("cuda:0")) == plain
    monkeypatch.setattr(device.shutil, "which", lambda _: "/usr/bin/nvidia-smi")
    said = SimpleNamespace(returncode=0, stdout="580.65.06, 1410 MHz, 1980 MHz, 70.10 W\n")
    monkeypatch.setattr(device.subprocess, "run", lambda *_, **__: said)
    told = ", driver 580.65.06, clock now 1410 MHz, at most 1980 MHz, power 70.10 W"
    assert device.describe(torch.device("cuda:0")) == plain + told
    said.returncode = 1
    assert device.describe(torch.device("cuda:0")) == plain
