"""What the comparison with other servers says of what their callers saw, and what it does without an installer."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForMaskedLM

from benchmarks.lib.texts import write_small_bert
from benchmarks.peers.cloze import check_answer
from benchmarks.peers.cloze_clients import POSITION, likeliest
from benchmarks.peers.cloze_graphs import write_cloze_graphs
from benchmarks.peers.compare import Cell, Compared
from benchmarks.peers.environments import UnavailableError, interpreter
from benchmarks.peers.graph import INPUTS, Graph
from benchmarks.peers.load import Reading
from benchmarks.peers.models import feeds
from benchmarks.peers.report import Row, table

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
LARGE = Compared(
    Cell(length=128, callers=8, texts=32),
    {OURS: [Reading(95.0, 2700.0, 2900.0), Reading(90.0, 2800.0, 3000.0), Reading(102.0, 2500.0, 2600.0)]},
    bare=[100.0, 100.0, 100.0],
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


def test_calls_with_many_texts_are_a_share_of_the_rate_in_process() -> None:
    row = Row("bert-base", TITLES, LARGE)
    assert not row.is_single
    *_, bare, to_triton, _, share = row.cells()
    assert (bare, to_triton, share) == ("100/s", "-", "0.95 (0.90 to 1.02)")


def test_the_table_has_a_line_for_each_cell_and_one_for_what_a_call_adds() -> None:
    assert table([Row("2x128", TITLES, SINGLE), Row("bert-base", TITLES, LARGE)], "").row_count == 3


def test_every_round_is_there_for_machines() -> None:
    found = Row("2x128", TITLES, SINGLE).as_json()
    assert (found["length"], found["callers"], found["texts"]) == (32, 1, 1)
    assert [reading["rate"] for reading in found["readings"][OURS]] == [1000.0, 2000.0, 1500.0]
    assert found["ratios"] == {"Triton": [2.0, 4.0, 3.0], "KServe": []}


def test_without_uv_a_peer_is_unavailable_and_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UnavailableError, match="pip install uv"):
        interpreter(tmp_path / "peer", ["nothing"])


def test_a_job_that_nothing_runs_without_a_server_has_no_column_for_it() -> None:
    row = Row("bert-base", ["ours", "theirs"], Compared(Cell(9, 8, 1), {"ours": [Reading(3.0, 1.0, 2.0)]}, bare=[]))
    assert row.headings() == ["what", "ours", "theirs", "ours / theirs"]
    assert row.cells() == ["bert-base, 9 tokens, 8 callers, 1 text a call", "3.0/s, 1 / 2 ms", "-", "-"]
    assert table([row], "").row_count == 1


def test_the_likeliest_words_come_with_their_probabilities() -> None:
    scores = np.log(np.array([1, 40, 2, 30, 3, 10, 4, 10.5], np.float32))
    tokenizer = Tokenizer(WordLevel({f"word {token}": token for token in range(len(scores))}, unk_token="word 0"))
    words, probabilities = zip(*likeliest(tokenizer, scores), strict=True)
    assert words == ("word 1", "word 3", "word 7", "word 5", "word 6")
    assert probabilities == pytest.approx([share / 100.5 for share in (40, 30, 10.5, 10, 4)], rel=1e-5)


def test_words_in_another_order_are_right_if_their_probabilities_are() -> None:
    right = [("rome", 0.5), ("paris", 0.1), ("london", 0.1)]
    check_answer("it", "", [("rome", 0.5), ("london", 0.1), ("paris", 0.100001)], right)
    for wrong in ([("rome", 0.5), ("paris", 0.1), ("berlin", 0.1)], [("rome", 0.5), ("paris", 0.1), ("london", 0.0999)]):
        with pytest.raises(ValueError, match="it answers"):
            check_answer("it", "", wrong, right)


def test_texts_of_several_lengths_run_together_and_come_back_without_padding(tmp_path: Path) -> None:
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["n", "length"]) for name in INPUTS]
    output = onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, ["n", "length", 1])
    nodes = [
        onnx.helper.make_node("Cast", [INPUTS[0]], ["float"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("Unsqueeze", ["float", "axis"], ["out"]),
    ]
    axis, opset = onnx.numpy_helper.from_array(np.array([2]), "axis"), onnx.helper.make_opsetid("", 20)
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", values, [output], [axis]), ir_version=10, opset_imports=[opset]
    )
    onnx.save(model, str(tmp_path / "model.onnx"))
    requests = [[np.full((rows, length), length)] * 3 for rows, length in ((1, 4), (2, 2), (1, 4))]
    found = Graph(str(tmp_path / "model.onnx"), 1).run_together(requests)
    assert [one.shape for one in found] == [(1, 4, 1), (2, 2, 1), (1, 4, 1)]
    assert all((one[..., 0] == asked[0]).all() for one, asked in zip(found, requests, strict=True))


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
