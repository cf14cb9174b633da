"""Values with heads changed are those of transformers run once per text and set, however they are computed."""

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytest
from bertscope_service.analyses.ablation import Mode
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.encoders.base import HeadSet
from bertscope_service.errors import InvalidArgument
from numpy.typing import NDArray

from tests.support.hosted import (
    PLENTY,
    SCALE,
    DivergenceObjective,
    GoldObjective,
    Hosted,
    LabelObjective,
    Run,
    edit,
    needed_bytes,
    running,
)
from tests.support.reference import HeadEdits
from tests.support.rounding import BOTH_SIDES
from tests.support.subjects import THREE

pytestmark = pytest.mark.asyncio
Found = dict[HeadSet, NDArray[np.float64]]
MODES = [Mode.ZERO, Mode.UNIFORM, Mode.MEAN, Mode.SCALE]


@pytest.fixture(scope="module")
def expected(hosted: Hosted) -> Callable[[Mode], Found]:
    """By set, () the untouched model; computed once."""
    objective = GoldObjective(hosted.sequences)

    @cache
    def values(mode: Mode) -> Found:
        return {heads: objective.expected(hosted, hosted.edits(heads, mode)) for heads in ((), *hosted.sets())}

    return values


def check(found: Found, wanted: Found, tolerance: float = BOTH_SIDES) -> None:
    """Equal to `tolerance`, beside the size of the losses where they are over 1."""
    assert set(found) == set(wanted)
    for heads, values in wanted.items():
        np.testing.assert_allclose(found[heads], values, rtol=tolerance, atol=tolerance, err_msg=str(heads))


async def sweep(run: Run, sets: tuple[HeadSet, ...] | None = None) -> Found:
    async with running(run.batch_tokens) as engine:
        return await run.values(engine, sets or run.hosted.sets())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hosted", "mode"),
    [*product(THREE[:1], MODES), *((architecture, Mode.MEAN) for architecture in (*THREE[1:], "mobilebert"))],
    ids=str,
    indirect=["hosted"],
)
async def test_every_mode(hosted: Hosted, expected: Callable[[Mode], Found], mode: Mode) -> None:
    """Single heads, whole layers and sets over several layers. Every set has an effect of its own.

    Edits of the other modes are compared with edited maps on every architecture, in encoders/test_encoder_gates.py.
    """
    found = await sweep(Run(hosted, GoldObjective(hosted.sequences), mode))
    check(found, expected(mode))
    losses = [values[0] for values in found.values()]
    assert all(np.abs(one - other).max() > 1e-3 for index, one in enumerate(losses) for other in losses[:index])


def budgets(hosted: Hosted) -> dict[str, int]:
    """Memory for all rows' states; for all but one; for two or three; for no more than the longest one's."""
    # The hidden states of a layer, its contexts and the mean of its values.
    sizes = [4 * hosted.encoder.shape.hidden_size * (2 * len(sequence) + 1) for sequence in hosted.sequences]
    return {"everything": PLENTY, "some": sum(sizes) - 1, "few": max(sizes) * 5 // 4 + sizes[0], "one": max(sizes)}


@pytest.mark.slow
@pytest.mark.parametrize("hosted", THREE[:2], indirect=True)
@pytest.mark.parametrize(
    ("memory", "batch_tokens"), [("everything", 16), ("some", 1024), ("few", 64), ("one", 16), ("no reuse", 64)]
)
async def test_memory_and_batches_change_no_number(
    hosted: Hosted, expected: Callable[[Mode], Found], memory: str, batch_tokens: int
) -> None:
    reuse, bytes_ = memory != "no reuse", budgets(hosted).get(memory, PLENTY)
    mode = MODES[(len(memory) + batch_tokens + len(hosted.architecture)) % 4]
    run = Run(hosted, GoldObjective(hosted.sequences), mode, reuse=reuse, memory_bytes=bytes_, batch_tokens=batch_tokens)
    check(await sweep(run), expected(mode))


def base_of(hosted: Hosted) -> tuple[Interventions, HeadEdits]:
    """Heads changed by each mode, some of which the sets change too."""
    means = hosted.means
    heads = {
        (0, 0): Mode.ZERO,
        (0, 1): Mode.UNIFORM,
        (1, 0): Mode.MEAN,
        (1, 3): Mode.SCALE,
        (2, 1): Mode.MEAN,
        (2, 2): Mode.ZERO,
    }
    interventions = hosted.untouched
    for (layer, head), mode in heads.items():
        interventions = interventions.change(((layer, (head,)),), mode, SCALE)
    return interventions, {place: edit(mode, means[place]) for place, mode in heads.items()}


@pytest.mark.parametrize("hosted", THREE[:2], indirect=True)
@pytest.mark.parametrize("memory", ["one", "no reuse"])
async def test_changes_on_top_of_interventions(hosted: Hosted, memory: str) -> None:
    """What is changed is changed from there: a head of both contributes what the set says."""
    base, edits = base_of(hosted)
    mode = MODES[(len(memory) + len(hosted.architecture)) % 4]
    objective = GoldObjective(hosted.sequences)
    bytes_ = budgets(hosted).get(memory, PLENTY)
    run = Run(hosted, objective, mode, reuse=memory != "no reuse", memory_bytes=bytes_, batch_tokens=64, base=base)
    found = await sweep(run)
    wanted = {heads: objective.expected(hosted, {**edits, **hosted.edits(heads, mode)}) for heads in ((), *hosted.sets())}
    check(found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("labelled", THREE, indirect=True)
async def test_classifiers(labelled: Hosted) -> None:
    mode = MODES[len(labelled.architecture) % 4]
    objective = LabelObjective(labelled.sequences)
    found = await sweep(Run(labelled, objective, mode, memory_bytes=budgets(labelled)["few"], batch_tokens=128))
    check(found, {heads: objective.expected(labelled, labelled.edits(heads, mode)) for heads in ((), *labelled.sets())})
    assert 0 < sum(values[1].sum() for values in found.values()) < len(found) * objective.items


@pytest.mark.slow
@pytest.mark.parametrize("hosted", THREE[:1], indirect=True)
@pytest.mark.parametrize("based", [False, True], ids=["untouched", "interventions"])
async def test_divergences(hosted: Hosted, based: bool) -> None:
    """From the run under the interventions, of which the reference has all logits."""
    base, edits = base_of(hosted) if based else (hosted.untouched, {})
    mode = MODES[len(hosted.architecture) % 4]
    objective = DivergenceObjective(hosted.sequences)
    found = await sweep(Run(hosted, objective, mode, base=base, batch_tokens=128, memory_bytes=budgets(hosted)["few"]))
    wanted = {heads: objective.expected(hosted, {**edits, **hosted.edits(heads, mode)}, edits) for heads in hosted.sets()}
    assert not found.pop(()).any()
    check(found, wanted)
    assert max(values.max() for values in found.values()) > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("hosted", THREE[:1], indirect=True)
async def test_whole_runs_equal_changed_ones(hosted: Hosted, expected: Callable[[Mode], Found]) -> None:
    """What a greedy curve measures its points with."""
    run = Run(hosted, GoldObjective(hosted.sequences), Mode.MEAN)
    found = {}
    async with running(64) as engine:
        evaluation = run.start(engine)
        found[()] = await evaluation.baseline(hosted.untouched)
        for heads in hosted.sets():
            found[heads] = await evaluation.whole(hosted.untouched.change(heads, Mode.MEAN))
    check(found, expected(Mode.MEAN))
    passes = hosted.encoder.shape.layers * 6 * len(found)
    assert (evaluation.layer_passes, evaluation.full_layer_passes) == (passes, passes)


async def test_sets_of_lower_layers_come_first(masked_lm: Callable[[str], Hosted]) -> None:
    """Each as soon as it is measured; those of a layer in the order in which they were given."""
    hosted = masked_lm("bert")
    sets: tuple[HeadSet, ...] = (((3, (1,)),), ((1, (2,)), (3, (0,))), ((1, (0, 1)),), ((3, (0,)),))
    found = await sweep(Run(hosted, GoldObjective(hosted.sequences), Mode.ZERO), sets)
    assert list(found) == [(), sets[1], sets[2], sets[0], sets[3]]


async def test_a_budget_below_the_longest_row_is_refused(masked_lm: Callable[[str], Hosted]) -> None:
    hosted = masked_lm("bert")
    needed = max(needed_bytes(hosted.encoder, hosted.sequences))
    run = Run(hosted, GoldObjective(hosted.sequences), Mode.ZERO, memory_bytes=needed - 1)
    with pytest.raises(InvalidArgument) as caught:
        await sweep(run)
    assert caught.value.reason == "MEMORY_TOO_SMALL"
    assert str(needed) in caught.value.message
    assert len(await sweep(Run(hosted, run.objective, Mode.ZERO, memory_bytes=needed))) == len(hosted.sets()) + 1
