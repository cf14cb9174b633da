"""Derivatives of a row's loss with respect to gates on its heads: those of transformers in float64, text by text."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.analyses.observers.importance import GradientObserver, normalised
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.torch.encoder import TorchEncoder
from numpy.typing import NDArray

from tests.support.hosted import GoldObjective, Hosted, LabelObjective
from tests.support.reference import Edit, HeadEdits, gates_of
from tests.support.rounding import BOTH_SIDES
from tests.support.subjects import THREE
from tests.support.tiny import ARCHITECTURES, write_checkpoint

Found = list[tuple[float, NDArray[np.float32]]]
TOLERANCE = BOTH_SIDES
"""Share of a row's largest derivative. The encoder computes in fp32, whose rounding is 6e-8 of each of some hundred numbers
that are added up in each of the 16 to 50 products on the way there and back."""


@pytest.fixture(scope="module", params=list(product(ARCHITECTURES, ("masked-lm", "classifier"))), ids="-".join)
def hosted(
    request: pytest.FixtureRequest, checkpoint: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Hosted:
    name, kind = request.param
    if kind == "masked-lm":
        return Hosted(name, checkpoint(name))
    return Hosted(name, write_checkpoint(name, tmp_path_factory.mktemp("classifiers") / name, labels=3), classifies=True)


@pytest.fixture(scope="module")
def objective(hosted: Hosted) -> GoldObjective | LabelObjective:
    return (LabelObjective if hosted.classifies else GoldObjective)(hosted.sequences)


def base_of(hosted: Hosted) -> HeadEdits:
    """Heads changed by each mode, in three layers."""
    return {(0, 1): Edit(), (0, 2): Edit(uniform=1.0), (1, 0): Edit(keep=-1.5), (2, 3): Edit(constant=hosted.means[2, 3])}


def gradients(
    encoder: TorchEncoder,
    objective: GoldObjective | LabelObjective,
    rows: Sequence[int],
    gates: Sequence[Edits | None] = (None,),
) -> Found:
    """What the observers of some rows see, in one batch, as a worker runs it. Their gates are taken in turn."""
    observers = [GradientObserver(objective.losses[row]) for row in rows]
    with torch.inference_mode():
        state = encoder.begin([objective.sequences[row] for row in rows])
        readout = GradientObserver.run(
            encoder, state, encoder.place_edits([gates[row % len(gates)] for row in rows]), observers
        )
        assert not any(tensor.requires_grad for tensor in readout.tensors)
        return readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))


def expected(hosted: Hosted, objective: GoldObjective | LabelObjective, row: int, base: HeadEdits) -> Found:
    """Loss and absolute derivatives of one row, by transformers."""
    keep = torch.ones(hosted.encoder.shape.layers, hosted.encoder.shape.heads, dtype=torch.float64)
    for place, change in base.items():
        keep[place] = change.keep
    keep.requires_grad_()
    loss = objective.loss(row, hosted.reference.scores(objective.sequences[row], base, keep=keep))
    (gradient,) = torch.autograd.grad(loss, keep)
    return [(float(loss.detach()), gradient.abs().numpy())]


def check(found: Found, wanted: Found, share: float = TOLERANCE) -> None:
    assert len(found) == len(wanted)
    for (loss, gradient), (other_loss, other) in zip(found, wanted, strict=True):
        assert loss == pytest.approx(other_loss, rel=1e-5)
        assert gradient.shape == other.shape
        np.testing.assert_allclose(gradient, other, rtol=0, atol=share * float(other.max()))


@pytest.mark.slow
def test_gradients_are_those_of_transformers(hosted: Hosted, objective: GoldObjective | LabelObjective) -> None:
    """All rows in one padded batch, with packed weights, untouched and under interventions."""
    encoder, changes = hosted.encoder, base_of(hosted)
    gates = gates_of(encoder, changes)
    for base, placed in (({}, None), (changes, gates)):
        found = gradients(encoder, objective, range(objective.items), [placed])
        wanted = [one for row in range(objective.items) for one in expected(hosted, objective, row, base)]
        check(found, wanted)
        # A single token has nothing else to attend to, yet even its heads matter.
        assert all(float(gradient.max()) > 1e-3 for _, gradient in found)


@pytest.mark.parametrize("hosted", list(product(THREE, ("masked-lm", "classifier"))), ids="-".join, indirect=True)
def test_a_model_runs_on_after_gradients(hosted: Hosted, objective: GoldObjective | LabelObjective) -> None:
    """Nothing that autograd touched stays behind, and no parameter has a gradient."""
    encoder = hosted.load(pack=True)
    before = gradients(encoder, objective, [0, 1])
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in encoder.architecture.model.parameters())
    with torch.inference_mode():
        state = encoder.begin(objective.sequences[:2])
        encoder.advance(state, encoder.shape.layers)
        assert state.hidden.is_inference()
    again = gradients(encoder, objective, [0, 1])
    assert all(np.array_equal(one[1], other[1]) for one, other in zip(again, before, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("hosted", list(product(THREE, ("masked-lm", "classifier"))), ids="-".join, indirect=True)
def test_bf16(hosted: Hosted, objective: GoldObjective | LabelObjective) -> None:
    """Eight bits leave little of a random model's single derivatives, but no row is nonsense and most are alike."""
    encoder, rows = hosted.load(pack=True, precision="bf16"), range(objective.items)
    exact, rough = gradients(hosted.encoder, objective, rows), gradients(encoder, objective, rows)
    correlations = [np.corrcoef(one.ravel(), other.ravel())[0, 1] for (_, one), (_, other) in zip(rough, exact, strict=True)]
    assert min(correlations) > 0.5
    assert np.median(correlations) > 0.9


def test_normalised() -> None:
    gradient = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
    assert normalised(gradient).tolist() == [[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]]
