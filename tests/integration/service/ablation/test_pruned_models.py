"""Jobs on a model whose weights lack heads give what the whole one gives with those heads at zero."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from bertscope_service.ablation.mean_contexts import mean_contexts
from bertscope_service.ablation.ranking import rank_heads
from bertscope_service.analyses.ablation import Mode
from bertscope_service.encoders.base import HeadSet
from bertscope_service.engine.bulk import BulkRunner

from tests.support.hosted import PLENTY, GoldObjective, Hosted, Run, running
from tests.support.pruned import prune
from tests.support.reference import Edit, HeadEdits
from tests.support.rounding import BOTH_SIDES

pytestmark = pytest.mark.asyncio
GONE = {0: (1, 2), 1: (0, 1, 2, 3), 2: (3,)}
ZERO: HeadEdits = {(layer, head): Edit() for layer, heads in GONE.items() for head in heads}
SETS: tuple[HeadSet, ...] = (
    ((0, (0,)),),
    ((0, (1, 3)),),
    ((0, (3,)), (2, (0, 2))),
    ((1, (0, 2)),),
    ((2, (0, 1, 2, 3)),),
    ((2, (1,)),),
)
"""Heads that are left, heads that are gone, and some of both."""

LITTLE = 4 * 48 * 129
"""Bytes for the states of some rows."""

DIFFERENT = ("bert", "mobilebert", "modernbert")
"""The architectures that differ most of those whose heads can be removed."""


@pytest.fixture(scope="module", params=DIFFERENT)
def pruned(
    request: pytest.FixtureRequest, masked_lm: Callable[[str], Hosted], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Hosted, Hosted]:
    """A model that lacks heads, and the whole one."""
    whole, target = masked_lm(request.param), tmp_path_factory.mktemp("pruned") / request.param
    prune(whole.folder, GONE, target)
    return Hosted(request.param, target), whole


@pytest.mark.slow
@pytest.mark.parametrize("memory", [PLENTY, LITTLE])
async def test_sweeps(pruned: tuple[Hosted, Hosted], memory: int) -> None:
    """A head that is gone stays so, whatever is put in its place."""
    part, whole = pruned
    mode = list(Mode)[(len(part.architecture) + (memory == PLENTY)) % 4]
    run = Run(part, GoldObjective(whole.sequences), mode, memory_bytes=memory, batch_tokens=128)
    part.means = whole.means
    async with running(128) as engine:
        found = await run.values(engine, SETS)
    for heads in ((), *SETS):
        wanted = run.objective.expected(whole, {**whole.edits(heads, mode), **ZERO})
        np.testing.assert_allclose(found[heads], wanted, rtol=BOTH_SIDES, atol=BOTH_SIDES, err_msg=str(heads))
    assert np.abs(found[SETS[3]] - found[()]).max() < BOTH_SIDES


async def test_means_and_ranking(pruned: tuple[Hosted, Hosted]) -> None:
    """Heads that are gone have contexts of zero, and no importance."""
    part, whole = pruned
    objective = GoldObjective(whole.sequences)
    async with running(128) as engine:
        bulk = BulkRunner(engine, part.encoder, "client", None)
        means = await mean_contexts(part.encoder, whole.references, bulk)
        ranking = await rank_heads(part.encoder, objective, None, bulk)
    wanted = torch.zeros(part.encoder.shape.layers, 4, dtype=torch.float64)
    for row, sequence in enumerate(objective.sequences):
        keep = torch.ones_like(wanted)
        for place in ZERO:
            keep[place] = 0.0
        loss = objective.loss(row, whole.reference.scores(sequence, ZERO, keep=keep.requires_grad_()))
        wanted += torch.autograd.grad(loss, keep)[0].abs() / objective.items
    for place in ZERO:
        wanted[place] = 0.0
        assert not means[place].any()
    np.testing.assert_allclose(ranking.gradient, wanted, rtol=0, atol=1e-4 * float(wanted.max()))
    assert not ranking.importance[1].any()
    # Below the first change nothing differs from the whole model.
    np.testing.assert_allclose(means[0, [0, 3]], whole.means[0, [0, 3]], rtol=0, atol=1e-5)
