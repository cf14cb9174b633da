"""Half precisions run on the CPU, close to fp32: alone, padded, watched or not, with and without gates."""

import pytest
import torch
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.torch.encoder import TorchEncoder

from tests.support.reference import Outputs, Subject
from tests.support.subjects import on_three

ROUNDING = {"bf16": 2**-8, "fp16": 2**-11}
"""How far a number is from its nearest neighbour in each format, relative to it."""


@pytest.fixture(scope="module", params=ROUNDING)
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def encoder(subject: Subject, precision: str) -> TorchEncoder:
    return subject.load(precision=precision, pack=True)


def gates_of(subject: Subject) -> list[Edits | None]:
    gates = subject.gates({(0, 1): (0.0, 1.0), (1, 0): (0.5, 0.0), (2, 2): (0.0, 0.0)})
    return [gates if index % 2 else None for index in range(len(subject.sequences))]


def distance(found: Outputs, expected: Outputs) -> float:
    """Root mean square of the errors of all logits of real tokens, as a share of that of the logits."""
    pairs = [(found.row(index)[-1], expected.row(index)[-1]) for index in range(len(expected.lengths))]
    ours, theirs = (torch.cat(column) for column in zip(*pairs, strict=True))
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.slow
@pytest.mark.parametrize(("watch", "gated"), [(False, False), (True, True)])
def test_close_to_fp32(subject: Subject, encoder: TorchEncoder, precision: str, watch: bool, gated: bool) -> None:
    """Errors grow by up to some fifty roundings over these layers, whose attention is far sharper than a trained model's."""
    gates = gates_of(subject) if gated else None
    found = subject.run(subject.sequences, gates, encoder=encoder, watch=watch)
    expected = subject.run(subject.sequences, gates)
    assert encoder.precision == precision
    assert next(encoder.architecture.model.parameters()).dtype == found.hidden[0].dtype != torch.float32
    assert bool(torch.isfinite(found.logits).all())
    assert 0 < distance(found, expected) < 50 * ROUNDING[precision]


@pytest.mark.slow
@on_three
def test_maps_are_fp32_and_gates_touch_no_other_row(subject: Subject, encoder: TorchEncoder, precision: str) -> None:
    plain, expected = subject.run(subject.sequences, encoder=encoder), subject.run(subject.sequences)
    for ours, theirs in zip(plain.maps, expected.maps, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.sum(dim=-1), torch.ones(ours.shape[:-1]), rtol=0, atol=2e-3)
        assert float((ours - theirs).abs().mean()) < 2 * ROUNDING[precision]
    gated = subject.run(subject.sequences, gates_of(subject), encoder=encoder)
    assert torch.equal(gated.logits[::2], plain.logits[::2])
    assert not torch.equal(gated.logits[1::2], plain.logits[1::2])
