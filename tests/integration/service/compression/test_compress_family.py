"""Layers and feed-forward units are removed from every architecture that allows it."""

from pathlib import Path

import pytest
import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Criterion, KeepLayers, RemoveFeedForward, Step, Untrain
from bertscope_service.compression.compress import compress
from bertscope_service.compression.plan import Subject as Planned
from bertscope_service.compression.plan import plan
from bertscope_service.encoders.torch.architectures import ARCHITECTURES as KINDS
from bertscope_service.errors import Unsupported

from tests.support.compressed import networks_of
from tests.support.family import FAMILY
from tests.support.reference import Subject, assert_close
from tests.support.tiny import write_checkpoint

GONE = 12


@pytest.fixture(params=FAMILY)
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    return Subject(request.param, write_checkpoint(request.param, tmp_path / "whole"))


def compressed(whole: Subject, target: Path, step: Step) -> Subject:
    """The result of one step, which this service and transformers both read."""
    source = inspect(whole.folder)
    compress(source, (step,), target, lambda _: None, source.digest(lambda _: None))
    return Subject(whole.architecture, target)


def assert_same(found: Subject, expected: Subject) -> None:
    """Ours on the result is transformers on the result, and transformers on the other model."""
    for sequence in expected.sequences[:4]:
        logits = expected.reference.run([sequence]).logits
        assert_close([found.reference.run([sequence]).logits], [logits])
        assert_close([found.run([sequence]).logits], [logits])


def refused(whole: Subject, step: Step) -> bool:
    """True if a step is refused when it is planned."""
    encoder = whole.encoder
    subject = Planned("models/one", encoder.shape, encoder.capabilities, "cpu", has_mask=True)
    try:
        plan((step,), subject)
    except Unsupported:
        return True
    return False


@pytest.mark.slow
def test_layers(whole: Subject, tmp_path: Path) -> None:
    kind, step = KINDS[whole.architecture], KeepLayers((0, *range(2, whole.encoder.shape.layers)))
    assert refused(whole, step) == (kind.fixed_layers is not None)
    if kind.fixed_layers is not None:
        return
    found = compressed(whole, tmp_path / "made", step)
    owner, _, name = f"{kind.base}.{kind.layer_list}".rpartition(".")
    holder = whole.reference.model.get_submodule(owner)
    setattr(holder, name, torch.nn.ModuleList(layer for index, layer in enumerate(getattr(holder, name)) if index != 1))
    whole.reference.model.config.num_hidden_layers = whole.encoder.shape.layers - 1
    assert_same(found, whole)


def networks(whole: Subject) -> list[tuple[torch.Tensor, torch.nn.Linear]]:
    """The weights into the units of each feed-forward network of transformers' model, and what reads the units."""
    if whole.architecture == "mobilebert":  # several in each layer
        return [(into.weight, out) for into, out in networks_of(whole.reference.model)]
    kind = KINDS[whole.architecture]
    return [
        (
            torch.cat([layer.get_submodule(path).weight for path in kind.network.into], dim=1),
            layer.get_submodule(kind.network.out),
        )
        for layer in kind(whole.reference.model).layers
    ]


@pytest.mark.slow
def test_feed_forward_units(whole: Subject, tmp_path: Path) -> None:
    """Those of the smallest product of norms are gone, as if what reads them were zero."""
    kind, step = KINDS[whole.architecture], RemoveFeedForward(0.25, Criterion.MAGNITUDE, ())
    assert refused(whole, step) == (kind.fixed_network is not None)
    if kind.fixed_network is not None:
        return
    found = compressed(whole, tmp_path / "made", step)
    for into, out in networks(whole):
        norms = into.unflatten(0, (-1, out.in_features)).norm(dim=(0, 2))  # a gate has rows of its own
        out.weight.data[:, (norms * out.weight.norm(dim=0)).argsort()[:GONE]] = 0
    assert_same(found, whole)


@pytest.mark.parametrize("whole", list(FAMILY)[::6], indirect=True)
def test_untrained(whole: Subject, tmp_path: Path) -> None:
    """Weights of the checkpoint's shape, as a config without training gives them; the same seed gives the same."""
    found = compressed(whole, tmp_path / "made", Untrain(3))
    assert found.encoder.shape == whole.encoder.shape
    sequence = whole.sequences[2]
    assert_close([found.run([sequence]).logits], [found.reference.run([sequence]).logits])
    assert not torch.allclose(found.reference.run([sequence]).logits, whole.reference.run([sequence]).logits)
    matrices = [
        values.detach() for _, values in found.reference.model.named_parameters() if values.ndim > 1 and values.numel() > 900
    ]
    spread = getattr(found.reference.model.config, "initializer_range", 0.02)
    # Each of 900 numbers or more: the standard error of their deviation is 2.4 %.
    assert all(abs(float(values.std()) / spread - 1) < 0.15 for values in matrices)
    again = compressed(whole, tmp_path / "again", Untrain(3))
    assert torch.equal(again.reference.run([sequence]).logits, found.reference.run([sequence]).logits)
