"""Values with heads changed are those of transformers run once per text and set, however they are computed.

Objectives, curves, rankings and what is refused are asked for through the server, in api/test_ablation.py.
"""

import numpy as np
import pytest
from bertscope_service.analyses.interventions import Interventions, Mode
from numpy.typing import NDArray

from tests.support.hosted import PLENTY, SCALE, GoldObjective, Hosted, Run, edit, running
from tests.support.reference import HeadEdits
from tests.support.rounding import BOTH_SIDES
from tests.support.subjects import THREE

pytestmark = pytest.mark.asyncio

CASES = [
    *((THREE[0], mode, memory) for mode, memory in zip(Mode, ("everything", "few", "one", "no reuse"), strict=True)),
    *((architecture, Mode.MEAN, "few") for architecture in (*THREE[1:], "mobilebert")),
]


def budget(hosted: Hosted, memory: str) -> int:
    """Memory for all rows' states, for two or three of them, or for no more than the longest one's."""
    # The hidden states of a layer, its contexts and the mean of its values.
    sizes = [4 * hosted.encoder.shape.hidden_size * (2 * len(sequence) + 1) for sequence in hosted.sequences]
    return {"few": max(sizes) * 5 // 4 + sizes[0], "one": max(sizes)}.get(memory, PLENTY)


def base_of(hosted: Hosted) -> tuple[Interventions, HeadEdits]:
    """Heads changed by each mode, some of which the sets change too."""
    heads = {(0, 0): Mode.ZERO, (0, 1): Mode.UNIFORM, (1, 0): Mode.MEAN, (1, 3): Mode.SCALE, (2, 1): Mode.MEAN}
    interventions = hosted.untouched
    for (layer, head), mode in heads.items():
        interventions = interventions.change(((layer, (head,)),), mode, SCALE)
    return interventions, {place: edit(mode, hosted.means[place]) for place, mode in heads.items()}


@pytest.mark.parametrize("based", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["on interventions", "untouched"])
@pytest.mark.parametrize(("hosted", "mode", "memory"), CASES, ids=str, indirect=["hosted"])
async def test_values_are_those_of_transformers(hosted: Hosted, mode: Mode, memory: str, based: bool) -> None:
    """Of single heads, whole layers and sets over several layers. What is changed already is changed from there: a head of both
    contributes what the set says.

    Edits of the other modes are compared with edited maps on every architecture, in encoders/test_encoder_gates.py.
    """
    base, edits = base_of(hosted) if based else (hosted.untouched, {})
    objective, reuse = GoldObjective(hosted.sequences), memory != "no reuse"
    run = Run(hosted, objective, mode, reuse=reuse, memory_bytes=budget(hosted, memory), batch_tokens=64, base=base)
    async with running(64) as engine:
        found = await run.values(engine, hosted.sets())
    wanted = {heads: objective.expected(hosted, {**edits, **hosted.edits(heads, mode)}) for heads in ((), *hosted.sets())}
    assert set(found) == set(wanted)
    for heads, values in wanted.items():
        # Beside the size of the losses where they are over 1.
        np.testing.assert_allclose(found[heads], values, rtol=BOTH_SIDES, atol=BOTH_SIDES, err_msg=str(heads))
    losses: list[NDArray[np.float64]] = [values[0] for values in found.values()]
    if not based:
        assert all(np.abs(one - other).max() > 1e-3 for index, one in enumerate(losses) for other in losses[:index])
