"""Pruned models are made again from their source whenever that is needed; what else they owe is in api/test_pruning.py."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models import runtimes
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.registry import Registry
from bertscope_service.observability.metrics import Metrics

from tests.support.exports import READ


class Models:
    """A registry whose models are really read, on an event loop of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.registry = Registry(Metrics(), READ, no_warm_up)

    def load(self, folder: Path) -> LoadedModel:
        spec = LoadSpec("whole", str(folder), "auto", "fp32")
        return self.runner.run(self.registry.load(spec, lambda _: None))

    def prune(
        self, loaded: LoadedModel, heads: dict[int, tuple[int, ...]], model_id: str, folder: Path | None = None
    ) -> LoadedModel:
        return self.runner.run(self.registry.prune(loaded, model_id, heads, folder, lambda _: None))

    def unload(self, name: str) -> None:
        self.runner.run(self.registry.unload(name))


async def no_warm_up(loaded: LoadedModel) -> LoadedModel:
    return loaded


@pytest.fixture
def models() -> Iterator[Models]:
    made = Models()
    yield made
    made.runner.close()


def test_a_pruned_model_can_be_pruned(models: Models, bert: Path, tmp_path: Path) -> None:
    """Whether it was saved or not, and whether its original is still loaded or not."""
    whole = models.load(bert)
    once = models.prune(whole, {0: (1,), 1: (0, 2)}, "once", tmp_path / "once")
    unsaved = models.prune(whole, {1: (2,)}, "unsaved")
    models.unload("models/whole")
    twice = models.prune(unsaved, {0: (1,)}, "twice")
    assert twice.spec.source == "models/unsaved, pruned"
    models.unload("models/unsaved")
    thrice = models.prune(twice, {1: (0,)}, "thrice", tmp_path / "thrice")
    assert thrice.weights_digest == once.weights_digest
    further = models.prune(thrice, {2: (3,)}, "further")
    assert further.encoder.shape.pruned == {0: (1,), 1: (0, 2), 2: (3,)}


def test_what_can_not_be_read_is_not_kept(models: Models, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = models.load(bert)

    def too_large(*_: object, **__: object) -> None:
        raise FailedPrecondition("does not fit", "DEVICE_MEMORY")

    monkeypatch.setattr(runtimes, "load_encoder", too_large)
    with pytest.raises(FailedPrecondition, match="does not fit"):
        models.prune(whole, {1: (2,)}, "pruned", tmp_path / "saved")
    assert [entry.spec.name for entry in models.registry.entries()] == ["models/whole"]
    assert not (tmp_path / "saved").exists()
