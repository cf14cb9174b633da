"""What comparisons with other servers and with Ray Serve make of their readings, and graphs that other servers run."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from benchmarks.lib.texts import write_small_bert
from benchmarks.peers.cloze_clients import POSITION
from benchmarks.peers.cloze_graphs import write_cloze_graphs
from benchmarks.peers.compare import Cell, Compared
from benchmarks.peers.graph import Graph
from benchmarks.peers.load import Reading
from benchmarks.peers.models import feeds
from benchmarks.peers.report import Row
from benchmarks.ray_serve import command as ray_serve

OURS = "ours"
TITLES = [OURS, "Triton", "KServe"]
SINGLE = Compared(
    Cell(length=32, callers=1, texts=1),
    {
        OURS: [Reading(1000.0, 0.9, 1.5), Reading(2000.0, 1.0, 1.6), Reading(1500.0, 1.1, 1.4)],
        "Triton": [Reading(500.0, 2.0, 2.5), Reading(500.0, 2.0, 2.5), Reading(500.0, 2.0, 2.5)],
    },
    bare=[0.5, 0.7, 0.6],
)


def test_ratios_are_those_of_a_round_and_their_median_counts() -> None:
    what, ours, triton, kserve, bare, to_triton, to_kserve, share = Row("2x128", TITLES, SINGLE).cells()
    assert what == "2x128, 32 tokens, 1 caller, 1 text a call"
    assert (ours, triton, kserve) == ("1500/s, 1 / 1.5 ms", "500/s, 2 / 2.5 ms", "-")
    assert bare == "0.60 ms"
    assert to_triton == "3.00 (2.00 to 4.00)"
    assert (to_kserve, share) == ("-", "")


def test_a_call_adds_its_median_less_that_of_the_bare_run_of_the_same_round() -> None:
    row = Row("2x128", TITLES, SINGLE)
    assert row.is_single
    assert row.added() == ["2x128, 32 tokens: a call adds", "0.40 ms (0.30 to 0.50)", "1.40 ms (1.30 to 1.50)", "-"]


@pytest.mark.slow
def test_both_cloze_graphs_give_the_scores_of_transformers(tmp_path: Path) -> None:
    checkpoint = write_small_bert(tmp_path / "checkpoint", seed=1)
    whole, gathered = write_cloze_graphs(checkpoint, tmp_path)
    inputs, positions = feeds([9, 6]), np.array([[3], [5]])
    scores = Graph(str(whole), 1).run(inputs)
    model = AutoModelForMaskedLM.from_pretrained(checkpoint).eval()
    with torch.inference_mode():
        expected = model(**{name: torch.from_numpy(values) for name, values in inputs.items()}).logits.numpy()
    real = inputs["attention_mask"] == 1
    np.testing.assert_allclose(scores[real], expected[real], atol=1e-4)
    found = Graph(str(gathered), 1).run({**inputs, POSITION: positions})
    np.testing.assert_allclose(found, np.take_along_axis(scores, positions[:, :, None], axis=1)[:, 0], atol=1e-4)


READINGS = {
    "ours": [Reading(100, 10, 20), Reading(120, 8, 16), Reading(80, 12, 24)],
    "one": [Reading(50, 20, 40), Reading(40, 22, 44), Reading(40, 24, 48)],
    "two": [Reading(90, 11, 22), Reading(80, 12, 24), Reading(70, 14, 28)],
}


@pytest.mark.slow
def test_ratios_are_taken_round_by_round() -> None:
    row = ray_serve.Row(ray_serve.Cell(8, 1), READINGS)
    assert row.ratio("one", "ours") == pytest.approx((0.5, 1 / 3, 0.5))
    assert row.ratio("two", "one") == pytest.approx((1.8, 1.75, 2.0))
    assert row.middle("two", lambda reading: reading.p95) == 24
