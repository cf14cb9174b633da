"""Shares of heads and neurons, against a plain loop over transformers' modules with hooks; sums, rounds and positions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.observers.targets import EntryTarget
from bertscope_service.analyses.path_attribution import Steps, midpoints
from bertscope_service.analyses.site_attribution import MAX_POSITIONS, SiteQuery, SiteWork
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Site
from bertscope_service.errors import InvalidArgument
from numpy.typing import NDArray

from tests.support.hooked import NUMBERS, Hooked
from tests.support.limits import limit_sizes
from tests.support.reference import Reference, Subject
from tests.support.runner import run_rows
from tests.support.subjects import everywhere

SITES = (Site.ACTIVATIONS, Site.HEAD_OUTPUT)
TARGET = EntryTarget(3, (10, 21))
POSITIONS = np.array([1, 3])
Floats = NDArray[np.float64]


def divided(subject: Subject, sequence: TokenSequence, query: SiteQuery, steps: Steps | None, *, batch: int = 5) -> SiteWork:
    """The work of a text, after its last round."""
    positions = query.positions(sequence, None, "inputs[0]")
    work = SiteWork(sequence, positions, TARGET, query, steps)
    while len(work.rows):
        work.advance(run_rows(subject.encoder, list(work.rows), batch=batch))
    return work


def query(site: Site, layers: tuple[int, ...], top: int = 20) -> SiteQuery:
    return SiteQuery(site, layers, lambda *_: POSITIONS, top)


@pytest.fixture
def reference(subject: Subject, checkpoint: Callable[[str], Path]) -> Hooked:
    """transformers' model in float64."""
    return Hooked(Reference(checkpoint(subject.architecture), torch.float64))


def looped(hooked: Hooked, sequence: TokenSequence, site: Site, layer: int, heads: int, steps: int) -> tuple[Floats, float]:
    """Gradient times output at the middles of steps, [positions, units], averaged; and the number with the units at 0."""
    inputs, total, absent = hooked.reference.inputs([sequence]), 0.0, 0.0
    for share in (0.0, *midpoints(steps)):
        points: list[tuple[torch.Tensor, torch.Tensor]] = []

        def scaled(vectors: torch.Tensor, share: float = share, points: list[Any] = points) -> torch.Tensor:
            own = vectors[POSITIONS].detach()
            point = (share * own).requires_grad_()
            points.append((own, point))
            after = vectors.clone()
            after[POSITIONS] = point
            return after

        with hooked.changed({(NUMBERS[site], layer): scaled}):
            scores = hooked.reference.model(**inputs).logits[0, TARGET.position]
        value = scores[TARGET.ids[0]] - scores[TARGET.ids[1]]
        ((own, point),) = points
        if not share:
            absent = float(value.detach())
            continue
        (gradient,) = torch.autograd.grad(value, point)
        products = (gradient * own).numpy()
        total = total + (products.reshape(len(products), heads, -1).sum(axis=2) if site is Site.HEAD_OUTPUT else products)
    return np.asarray(total / steps), absent


@pytest.mark.slow
@everywhere
def test_shares_are_those_of_a_plain_loop(subject: Subject, reference: Hooked) -> None:
    sequence, layers = subject.sequences[4], (0, subject.encoder.shape.layers - 1)
    for site in SITES:
        if site is Site.HEAD_OUTPUT and subject.encoder.architecture.beside_heads == "convolutions":
            continue  # what its output projection reads has more than heads
        work = divided(subject, sequence, query(site, layers), Steps(5, 5, 0.5))
        for line in work.lines:
            wanted, absent = looped(reference, sequence, site, line.layer, subject.encoder.shape.heads, 5)
            np.testing.assert_allclose(line.values, wanted, atol=1e-4 * max(1.0, np.abs(wanted).max()))
            assert line.absent == pytest.approx(absent, abs=1e-4)
        assert work.evaluations == 1 + 2 * 6


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_rounds_go_on_for_layers_whose_error_is_large(subject: Subject) -> None:
    sequence = subject.sequences[4]
    work = SiteWork(sequence, POSITIONS, TARGET, query(Site.ACTIVATIONS, (0, 1)), Steps(2, 6, 0.01))
    assert len(work.rows) == 1 + 2 * 3
    ones = np.ones((2, 3), np.float32)
    # The first layer's sums are its difference, the second's are not.
    work.advance([6.0, (0.0, None), (1.0, 2 * ones), (1.0, None), (3.0, None), (1.0, ones), (1.0, ones)])
    assert [line.steps.steps for line in work.lines] == [2, 6]
    assert len(work.rows) == 4
    work.advance([(1.0, ones)] * 4)
    assert not len(work.rows)
    assert work.layer_sums == [6.0, 6.0]
    assert work.lines[1].absent == 3.0
    assert work.shares.completeness_error == pytest.approx(1.0)
    assert work.evaluations == 11


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_rows_of_other_layers_and_texts_in_a_batch_change_nothing(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_sizes(monkeypatch, gradient_tokens=20)  # a batch is several backward passes
    works = []
    for batch in (1, 20):
        of_two = []
        for sequence in (subject.sequences[4], subject.sequences[2]):
            positions = np.array([1, 3])
            of_two.append(SiteWork(sequence, positions, TARGET, query(Site.ACTIVATIONS, (0, 2)), Steps(4, 4, 0.5)))
        rows = [row for work in of_two for row in work.rows]
        results = run_rows(subject.encoder, rows, batch=batch)
        half = len(results) // 2
        of_two[0].advance(results[:half])
        of_two[1].advance(results[half:])
        works.append(of_two)
    for alone, together in zip(*works, strict=True):
        for one, other in zip(alone.lines, together.lines, strict=True):
            np.testing.assert_allclose(one.values, other.values, atol=1e-5)


def test_positions_are_the_masks_or_all_tokens() -> None:
    usual = SiteQuery(Site.ACTIVATIONS, (0,), None, 20)
    row = TokenSequence([2, 7, 4, 9, 4, 3], [0] * 6)
    assert usual.positions(row, 4, "inputs[0]").tolist() == [2, 4]
    assert usual.positions(row, 5, "inputs[0]").tolist() == usual.positions(row, None, "inputs[0]").tolist() == [*range(6)]
    long = TokenSequence([7] * (MAX_POSITIONS + 1), [0] * (MAX_POSITIONS + 1))
    with pytest.raises(InvalidArgument, match="name fewer"):
        usual.positions(long, 4, "inputs[0]")
    nowhere = SiteQuery(Site.ACTIVATIONS, (0,), lambda *_: np.zeros(0, dtype=np.int64), 20)
    with pytest.raises(InvalidArgument, match="has no token"):
        nowhere.positions(row, 4, "inputs[0]")
