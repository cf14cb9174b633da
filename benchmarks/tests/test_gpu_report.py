"""What the GPU report computes, tried on a CPU with tiny shapes."""

from collections import Counter

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu.device import Limits
from benchmarks.gpu.encoder import encoder_flops, measure_encoder
from benchmarks.gpu.throughput import Run, measure_throughput, middle, waits

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


def test_throughput_and_the_hosts_share_have_a_row_each() -> None:
    found = list(measure_throughput("tiny", config(), CPU, LIMITS, (16,), (32, 64)))
    (what, done, limit, share), (waiting, spent, whole, host) = found
    assert what.startswith("tiny bf16, texts of 16 through the engine, batches of ")
    assert "tokens/s" in done and limit == "1.0 TFLOP/s" and share.endswith("%")
    assert "did not wait" in waiting
    assert spent == whole and host == "100%"  # a CPU has no events to wait for


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
