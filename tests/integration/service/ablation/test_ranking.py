"""Gradient importance is the mean over texts of absolute derivatives, whatever company the texts run in.

The derivatives themselves are those of transformers on every architecture: see encoders/test_encoder_gradients.py.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from bertscope_service.ablation.ranking import Ranking, rank_heads
from bertscope_service.analyses.ablation import Mode
from bertscope_service.analyses.observers.importance import GradientObserver
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.errors import FailedPrecondition
from numpy.typing import NDArray

from tests.support.hosted import SCALE, GoldObjective, Hosted, LabelObjective, edit, running
from tests.support.reference import HeadEdits
from tests.support.rounding import BOTH_SIDES
from tests.support.subjects import THREE

pytestmark = pytest.mark.asyncio
BASE = {(0, 1): Mode.ZERO, (1, 2): Mode.UNIFORM, (2, 0): Mode.SCALE, (2, 3): Mode.MEAN}


async def rank(hosted: Hosted, objective: GoldObjective | LabelObjective, *, based: bool, batch_tokens: int = 128) -> Ranking:
    interventions = hosted.untouched
    for (layer, head), mode in BASE.items() if based else ():
        interventions = interventions.change(((layer, (head,)),), mode, SCALE)
    async with running(batch_tokens) as engine:
        bulk = BulkRunner(engine, hosted.encoder, "client", None)
        return await rank_heads(hosted.encoder, objective, interventions.edits(hosted.means), bulk)


def derivatives(
    hosted: Hosted, objective: GoldObjective | LabelObjective, edits: HeadEdits
) -> tuple[NDArray[np.float64], float]:
    """Signed, of each text by transformers: [texts, layers, heads]; and the mean loss."""
    found, losses = [], []
    for row, sequence in enumerate(objective.sequences):
        keep = torch.ones(hosted.encoder.shape.layers, hosted.encoder.shape.heads, dtype=torch.float64)
        for place, change in edits.items():
            keep[place] = change.keep
        loss = objective.loss(row, hosted.reference.scores(sequence, edits, keep=keep.requires_grad_()))
        found.append(torch.autograd.grad(loss, keep)[0].numpy())
        losses.append(float(loss.detach()))
    return np.stack(found), float(np.mean(losses))


async def check(hosted: Hosted, objective: GoldObjective | LabelObjective, *, based: bool) -> None:
    edits = {place: edit(mode, hosted.means[place]) for place, mode in BASE.items()} if based else {}
    signed, loss = derivatives(hosted, objective, edits)
    wanted = np.abs(signed).mean(axis=0)
    ranking = await rank(hosted, objective, based=based)
    assert ranking.loss == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(ranking.gradient, wanted, rtol=0, atol=BOTH_SIDES * wanted.max())
    norms = np.sqrt((wanted**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(ranking.importance, wanted / norms, rtol=0, atol=2e-3)
    # The absolute value of the sum, which is what a batch without a gate of its own for each text gives, is another number.
    assert np.abs(np.abs(signed.mean(axis=0)) - wanted).max() > 0.01 * wanted.max()


@pytest.mark.slow
@pytest.mark.parametrize("hosted", THREE, indirect=True)
@pytest.mark.parametrize("based", [False, True], ids=["untouched", "interventions"])
async def test_masked_lm(hosted: Hosted, based: bool) -> None:
    await check(hosted, GoldObjective(hosted.sequences), based=based)


@pytest.mark.slow
@pytest.mark.parametrize("labelled", THREE, indirect=True)
@pytest.mark.parametrize("based", [False, True], ids=["untouched", "interventions"])
async def test_classifiers(labelled: Hosted, based: bool) -> None:
    await check(labelled, LabelObjective(labelled.sequences), based=based)


async def test_gradients_that_are_not_finite_are_refused(
    masked_lm: Callable[[str], Hosted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in fp16, where a model may overflow."""
    hosted = masked_lm("bert")
    monkeypatch.setattr(GradientObserver, "run", classmethod(_overflown(GradientObserver.run)))
    with pytest.raises(FailedPrecondition) as caught:
        await rank(hosted, GoldObjective(hosted.sequences), based=False)
    assert caught.value.reason == "SCORES_NOT_FINITE"


def _overflown(run: Callable[..., object]) -> Callable[..., object]:
    def overflow(cls: type, *arguments: object) -> object:
        readout = run(*arguments)
        readout.tensors[1][0, 1, 2] = float("inf")
        return readout

    return overflow
