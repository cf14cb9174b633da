"""The graphs that other servers run."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.lib.texts import plain, write_small_bert
from benchmarks.peers.cloze_clients import POSITION
from benchmarks.peers.cloze_graphs import write_cloze_graphs
from benchmarks.peers.graph import INPUTS, Graph


@pytest.mark.slow
def test_both_cloze_graphs_give_the_scores_of_transformers(tmp_path: Path) -> None:
    checkpoint = write_small_bert(tmp_path / "checkpoint", seed=1)
    whole, gathered = write_cloze_graphs(checkpoint, tmp_path)
    ids, mask = np.random.default_rng(5).integers(2000, 29000, (2, 9)), np.ones((2, 9), np.int64)
    ids[1, 6:] = mask[1, 6:] = 0
    inputs, positions = dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True)), np.array([[3], [5]])
    scores = Graph(str(whole), 1).run(inputs)
    model, _ = plain(checkpoint)
    with torch.inference_mode():
        expected = model(**{name: torch.from_numpy(values) for name, values in inputs.items()}).logits.numpy()
    real = inputs["attention_mask"] == 1
    np.testing.assert_allclose(scores[real], expected[real], atol=1e-4)
    found = Graph(str(gathered), 1).run({**inputs, POSITION: positions})
    np.testing.assert_allclose(found, np.take_along_axis(scores, positions[:, :, None], axis=1)[:, 0], atol=1e-4)
