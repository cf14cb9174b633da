"""Changes at every site are those of plain hooks on transformers' modules, in the rows that have them alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.gating import enter
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Change, Codes, Site
from bertscope_service.encoders.torch.encoder import TorchEncoder

from tests.support.exports import load_exported
from tests.support.family import THREE
from tests.support.hooked import NUMBERS, Hooked
from tests.support.reference import Editing, Subject, all_logits, assert_close, assert_equal
from tests.support.subjects import everywhere, on_three

VECTOR_SITES = tuple(site for site in Site if site is not Site.ATTENTION)
POSITIONS = np.array([1, 3])


def size_of(encoder: TorchEncoder, site: Site) -> int:
    return encoder.head_size * encoder.shape.heads if site is Site.HEAD_OUTPUT else encoder.site_size(site)


def changes(site: Site, size: int, layer: int) -> dict[str, Change]:
    """One change of each form."""
    draw = np.random.default_rng(7)
    vector = draw.normal(size=size).astype(np.float32)
    basis = np.linalg.qr(draw.normal(size=(size, min(3, size))))[0].astype(np.float32)
    plain = Change(site, layer, POSITIONS)
    found = {
        "scale": replace(plain, keep=-0.5),
        "set": replace(plain, keep=0.0, add=vector),
        "add": replace(plain, add=np.stack([vector, 2 * vector])),
        "erase": replace(plain, add=basis @ (basis.T @ vector), left=basis, right=basis.T.copy()),
        "everywhere": replace(plain, positions=None, keep=0.5),
    }
    if site is Site.STATE:
        sparse = draw.normal(size=(2, 12, size)).astype(np.float32)
        found["codes"] = replace(plain, codes=Codes(sparse[0], sparse[0, :, 0], np.abs(sparse[0, :, 1]), sparse[1] / 12, -1.0))
        found["coded"] = replace(found["codes"], keep=0.0, add=vector, positions=None)
    if site in (Site.HEAD_OUTPUT, Site.ACTIVATIONS):
        units = np.array([2, 0])
        each = size // 4 if site is Site.HEAD_OUTPUT else 1
        found["units"] = replace(plain, units=units, keep=0.25, add=vector[: 2 * each])
    return found


def applied(change: Change, vectors: torch.Tensor, heads: int) -> torch.Tensor:
    """The definition, one vector at a time."""
    after = vectors.clone()
    places = range(len(vectors)) if change.positions is None else change.positions.tolist()
    for number, place in enumerate(places):
        x = vectors[place].double()
        add = torch.zeros(1) if change.add is None else torch.tensor(change.add if change.add.ndim == 1 else change.add[number])
        if change.units is not None:
            unit = x.shape[0] // heads if change.site is Site.HEAD_OUTPUT else 1
            parts = x.view(-1, unit).clone()
            for index, chosen in enumerate(change.units.tolist()):
                parts[chosen] = change.keep * parts[chosen] + add[index * unit : (index + 1) * unit]
            after[place] = parts.flatten()
            continue
        y = change.keep * x + add
        if change.left is not None and change.right is not None:
            y = y - torch.tensor(change.left).double() @ (torch.tensor(change.right).double() @ x)
        if (codes := change.codes) is not None:
            for encoder, bias, threshold, decoder in zip(
                codes.encoder, codes.biases, codes.thresholds, codes.decoder, strict=True
            ):
                active = float(torch.tensor(encoder).double() @ x + bias)
                y = y + codes.gain * active * torch.tensor(decoder).double() * (active > threshold)
        after[place] = y
    return after


def edits_of(subject: Subject, *changed: Change) -> Edits:
    return replace(subject.gates({}), changes=changed)


@torch.inference_mode()
def run(
    subject: Subject, batch: list[TokenSequence], edits: list[Edits | None], encoder: Encoder | None = None
) -> list[torch.Tensor]:
    """Scores of every real position of each row."""
    encoder = encoder or subject.encoder
    state = encoder.begin(batch)
    placed = encoder.place_edits([None if one is None else one.at(row) for one, row in zip(edits, batch, strict=True)])
    if placed is not None:
        enter(state, placed, kept=False)
    encoder.advance(state, encoder.shape.layers, placed)
    logits = all_logits(encoder, state)
    return [logits[index, : len(row)] for index, row in enumerate(batch)]


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("site", VECTOR_SITES)
def test_changes_are_those_of_hooks(subject: Subject, site: Site) -> None:
    """Beside an untouched row, which stays the same to the bit; in two layers of the architectures that differ most."""
    encoder, hooked = subject.encoder, Hooked(subject.reference)
    sequence, other = subject.sequences[4], subject.sequences[2]
    (plain, beside) = run(subject, [sequence, other], [None, None])
    # Between its layers SqueezeBERT has states the other way round, which the reference does not follow.
    others = (0,) if site is Site.STATE else (1,)
    layers = (0, encoder.shape.layers - (site is not Site.STATE)) if subject.architecture in THREE else others
    for layer in layers:
        for name, change in changes(site, size_of(encoder, site), layer).items():
            if (
                site is Site.HEAD_OUTPUT
                and encoder.architecture.beside_heads == "convolutions"
                and name in ("erase", "set", "add")
            ):
                continue
            found, untouched = run(subject, [sequence, other], [edits_of(subject, change), None])

            def edit(vectors: torch.Tensor, change: Change = change) -> torch.Tensor:
                size = size_of(encoder, site)
                after = applied(change, vectors[:, :size], encoder.shape.heads)
                return torch.cat((after, vectors[:, size:]), dim=1)

            expected, _ = hooked.run(subject.reference.inputs([sequence]), {(NUMBERS[site], layer): edit})
            assert_close([found], [expected])
            assert_equal([untouched], [beside])
            read = site is not Site.STATE or layer < encoder.shape.layers or name in ("everywhere", "coded")
            assert not read or float((found - plain).abs().max()) > 1e-4, (layer, name)


@everywhere
def test_blocked_attention_is_that_of_transformers(subject: Subject) -> None:
    encoder, sequence, other = subject.encoder, subject.sequences[4], subject.sequences[2]
    beside = run(subject, [sequence, other], [None, None])[1]
    for layer in range(encoder.shape.layers):
        heads, queries, keys = np.array([0, 2]), np.array([1, 2]), np.arange(3)
        change = Change(Site.ATTENTION, layer, queries, heads, keys=keys)
        found, untouched = run(subject, [sequence, other], [edits_of(subject, change), None])
        blocked = torch.zeros((encoder.shape.heads, len(sequence), len(sequence)), dtype=torch.bool)
        blocked[np.ix_(heads, queries, keys)] = True
        with torch.inference_mode(), Editing({}, blocked={layer: blocked}):
            expected = subject.reference.model(**subject.reference.inputs([sequence])).logits[0]
        assert_close([found], [expected])
        assert_equal([untouched], [beside])


@on_three
def test_a_query_without_keys_has_no_context(subject: Subject) -> None:
    sequence = subject.sequences[4]
    blocked = Change(Site.ATTENTION, 1, POSITIONS, keys=None)
    silenced = Change(Site.HEAD_OUTPUT, 1, POSITIONS, keep=0.0)
    assert_close(
        run(subject, [sequence], [edits_of(subject, blocked)]), run(subject, [sequence], [edits_of(subject, silenced)])
    )


@on_three
def test_changes_act_in_order(subject: Subject) -> None:
    sequence, size = subject.sequences[4], subject.encoder.shape.hidden_size
    vector = np.random.default_rng(3).normal(size=size).astype(np.float32)
    add, scale = Change(Site.STATE, 1, POSITIONS, add=vector), Change(Site.STATE, 1, POSITIONS, keep=2.0)
    less = replace(add, add=-vector)
    twice = replace(add, add=2 * vector)
    (plain,) = run(subject, [sequence], [None])
    (nothing,) = run(subject, [sequence], [edits_of(subject, add, less)])
    assert_close([nothing], [plain])
    (one,), (other,) = (run(subject, [sequence], [edits_of(subject, *each)]) for each in ((add, scale), (scale, twice)))
    assert_close([one], [other])
    (wrong,) = run(subject, [sequence], [edits_of(subject, scale, add)])
    assert float((wrong - one).abs().max()) > 1e-3


@pytest.mark.parametrize("subject", THREE[:2], indirect=True)
def test_graphs_change_the_same(subject: Subject, export_cache: Path) -> None:
    """ONNX gives what PyTorch gives, at all positions, alone and beside an untouched row; also where attention is blocked."""
    encoder, onnx = subject.encoder, load_exported(subject.folder, export_cache)
    batch, changed = [subject.sequences[4], subject.sequences[2]], list[Change]()
    for site in VECTOR_SITES:
        assert onnx.site_size(site) in (None, encoder.site_size(site))
        for layer in (0, encoder.shape.layers - (site is not Site.STATE)):
            changed += changes(site, size_of(encoder, site), layer).values()
    for layer in range(onnx.shape.layers):
        changed.append(Change(Site.ATTENTION, layer, np.array([1, 2]), np.array([0, 2]), keys=np.arange(3)))
    for change in changed:
        assert onnx.site_refusal(change.site, min(change.layer, encoder.shape.layers - 1)) is None
        edits: list[Edits | None] = [edits_of(subject, change), None]
        assert_close(run(subject, batch, edits, onnx), run(subject, batch, edits))
