"""What objectives observe: scores of gold pieces, labels, divergences."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bertscope_service.analyses.ablation import Mode
from bertscope_service.analyses.observers.predictions import GoldObserver
from bertscope_service.engine.rows import Row
from numpy.typing import NDArray

from tests.support.hosted import PLENTY, DivergenceObjective, GoldObjective, Hosted, LabelObjective, Run, running
from tests.support.limits import limit_sizes
from tests.support.rounding import BOTH_SIDES

pytestmark = pytest.mark.asyncio
GOLDS = np.array([[50, 61], [60, 70]])


@pytest.mark.parametrize("hosted", ["bert"], indirect=True)
async def test_logs_and_ranks(hosted: Hosted) -> None:
    """Rows with more and fewer gold pieces share a batch; each gets its own."""
    sequences = hosted.sequences[:5]
    golds = [GOLDS, GOLDS[:, :1], np.array([[43, 52, 90], [99, 44, 41]]), GOLDS[::-1], GOLDS[:, ::-1]]
    probes = [GoldObserver((0, len(sequence) - 1), gold, ranked=True) for sequence, gold in zip(sequences, golds, strict=True)]
    async with running() as engine:
        seen = await engine.run([Row(hosted.encoder, *pair) for pair in zip(sequences, probes, strict=True)], client="client")
    for sequence, gold, found in zip(sequences, golds, seen, strict=True):
        scores = hosted.reference.scores(sequence)[[0, -1]]
        np.testing.assert_allclose(found.logs, scores.log_softmax(-1).numpy()[[[0], [1]], gold], rtol=1e-5, atol=1e-5)
        assert found.ranks.shape == gold.shape
        for place, pieces in enumerate(gold.tolist()):
            for column, piece in enumerate(pieces):
                # Scores that are equal but for rounding may be in any order.
                above = [int((scores[place] > scores[place, piece] + slack).sum()) for slack in (1e-4, -1e-4)]
                assert above[0] + 1 <= found.ranks[place, column] <= above[1] + 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GoldObjective, DivergenceObjective])
async def test_scores_are_held_in_parts(
    masked_lm: Callable[[str], Hosted], monkeypatch: pytest.MonkeyPatch, kind: type[GoldObjective] | type[DivergenceObjective]
) -> None:
    """However few positions' scores over the vocabulary are held at a time."""
    hosted, found = masked_lm("bert"), list[dict[object, NDArray[np.float64]]]()
    for rows in (1, 3, 1000):
        limit_sizes(monkeypatch, logits_bytes=4 * hosted.encoder.shape.vocabulary_size * rows + 1)
        async with running() as engine:
            found.append(await Run(hosted, kind(hosted.sequences), Mode.ZERO).values(engine, hosted.sets()))  # type: ignore[arg-type]
    for heads, values in found[2].items():
        np.testing.assert_allclose(found[0][heads], values, rtol=BOTH_SIDES, atol=BOTH_SIDES)
        np.testing.assert_allclose(found[1][heads], values, rtol=BOTH_SIDES, atol=BOTH_SIDES)


async def test_a_classifier_that_reads_all_positions(classifier: Callable[[str], Hosted], tmp_path: Path) -> None:
    """ModernBERT's may take the mean over a text; in batches padding is none of it."""
    folder = tmp_path / "pooled"
    shutil.copytree(classifier("modernbert").folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"classifier_pooling": "mean"}))
    hosted = Hosted("modernbert", folder, classifies=True)
    assert not hosted.encoder.reads_first
    objective = LabelObjective(hosted.sequences)
    async with running() as engine:
        found = await Run(hosted, objective, Mode.UNIFORM, memory_bytes=PLENTY).values(engine, hosted.sets())
    for heads in ((), *hosted.sets()):
        wanted = objective.expected(hosted, hosted.edits(heads, Mode.UNIFORM))
        np.testing.assert_allclose(found[heads], wanted, rtol=1e-5, atol=1e-5)
