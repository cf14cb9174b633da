"""Pruning a loaded model: a new one beside it, saved or not, made again from its source whenever that is needed."""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any, TypeVar

import pytest
from bertscope_service.api.model_rendering import render_model
from bertscope_service.checkpoints.sources import Progress, inspect
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.errors import FailedPrecondition, ServiceError
from bertscope_service.models import loading, runtimes
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.registry import Registry
from bertscope_service.observability.metrics import Metrics

from tests.support.exports import READ
from tests.support.patience import granted
from tests.support.pruned import gates, run
from tests.support.reference import assert_close
from tests.support.tiny import corrupt_weights, write_checkpoint

T = TypeVar("T")
PARTS: dict[int, tuple[int, ...]] = {1: (2,)}


def ignore(_: Progress) -> None:
    pass


async def no_warm_up(loaded: LoadedModel) -> LoadedModel:
    return loaded


class Models:
    """A registry whose models are really read, on an event loop of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.registry = Registry(Metrics(), READ, no_warm_up)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def load(self, folder: Path, model_id: str = "whole", precision: str = "fp32") -> LoadedModel:
        return self.wait(self.registry.load(LoadSpec(model_id, str(folder), "auto", precision), ignore))

    def prune(
        self,
        loaded: LoadedModel,
        heads: dict[int, tuple[int, ...]] = PARTS,
        folder: Path | None = None,
        model_id: str = "pruned",
    ) -> LoadedModel:
        return self.wait(self.registry.prune(loaded, model_id, heads, folder, ignore))

    def refusal(self, kind: type[ServiceError], *arguments: Any, **options: Any) -> ServiceError:
        before = [entry.spec.name for entry in self.registry.entries()]
        with pytest.raises(kind) as caught:
            self.prune(*arguments, **options)
        assert [entry.spec.name for entry in self.registry.entries()] == before
        assert "\n" not in caught.value.message
        return caught.value


@pytest.fixture
def models() -> Iterator[Models]:
    made = Models()
    yield made
    made.runner.close()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made here."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def join_loads() -> None:
    """Wait until every loading thread has ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("bertscope-load"):
            thread.join(granted(30))
            assert not thread.is_alive()


def digest(folder: Path) -> str:
    return inspect(folder).digest(ignore)


def encoder(model: LoadedModel) -> TorchEncoder:
    assert isinstance(model.encoder, TorchEncoder)
    return model.encoder


def assert_same_as_closed(pruned: LoadedModel, whole: LoadedModel, heads: dict[int, tuple[int, ...]]) -> None:
    batch = [whole.tokenizer.encode(text).sequence for text in ("The cat sat.", "Paris is the capital of France.")]
    closed = gates(encoder(whole), heads)
    for found, expected in zip(run(encoder(pruned), batch), run(encoder(whole), batch, [closed] * 2), strict=True):
        assert_close(found, expected, 1e-5)


@pytest.mark.slow
def test_a_saved_model_is_listed_and_loads_again(models: Models, bert: Path, tmp_path: Path, temporary: Path) -> None:
    whole = models.load(bert)
    pruned = models.prune(whole, folder=tmp_path / "saved")
    assert (pruned.name, pruned.spec.source) == ("models/pruned", str(tmp_path / "saved"))
    assert pruned.weights_digest == digest(tmp_path / "saved") != whole.weights_digest
    assert pruned.weight_bytes == (tmp_path / "saved" / "model.safetensors").stat().st_size < whole.weight_bytes
    again = models.load(tmp_path / "saved", "again")
    assert (again.weights_digest, again.encoder.shape) == (pruned.weights_digest, pruned.encoder.shape)
    assert_same_as_closed(pruned, whole, PARTS)
    assert_same_as_closed(again, whole, PARTS)
    assert not list(temporary.iterdir())
    shown = render_model(models.registry.find("models/pruned"))
    assert [(one.layer, list(one.heads)) for one in shown.pruned_heads] == [(1, [2])]
    assert (shown.heads, shown.parameters) == (4, whole.encoder.shape.parameters - 4 * 32 * 8 - 3 * 8)


@pytest.mark.slow
def test_a_pruned_model_can_be_pruned(models: Models, bert: Path, tmp_path: Path) -> None:
    """Whether it was saved or not, and whether its original is still loaded or not."""
    whole = models.load(bert)
    once = models.prune(whole, {0: (1,), 1: (0, 2)}, tmp_path / "once")
    unsaved = models.prune(whole, {1: (2,)}, model_id="unsaved")
    models.wait(models.registry.unload("models/whole"))
    twice = models.prune(unsaved, {0: (1,)}, model_id="twice")
    assert twice.spec.source == "models/unsaved, pruned"
    models.wait(models.registry.unload("models/unsaved"))
    thrice = models.prune(twice, {1: (0,)}, tmp_path / "thrice", model_id="thrice")
    assert thrice.weights_digest == once.weights_digest
    further = models.prune(thrice, {2: (3,)}, model_id="further")
    assert further.encoder.shape.pruned == {0: (1,), 1: (0, 2), 2: (3,)}
    assert_same_as_closed(further, whole, {0: (1,), 1: (0, 2), 2: (3,)})


@pytest.mark.slow
def test_a_source_that_changed_is_refused(models: Models, bert: Path, tmp_path: Path) -> None:
    """Also where a model was pruned, unsaved, before."""
    folder = Path(copytree(bert, tmp_path / "copy"))
    loaded = models.prune(models.load(folder), {0: (0,)}, model_id="unsaved")
    write_checkpoint("bert", folder, seed=1)
    error = models.refusal(FailedPrecondition, loaded, PARTS, tmp_path / "saved")
    assert error.reason == "SOURCE_CHANGED"
    assert str(folder) in error.message
    assert not (tmp_path / "saved").exists()


def test_a_source_that_is_gone_or_broken_is_refused(models: Models, bert: Path, tmp_path: Path) -> None:
    folder = Path(copytree(bert, tmp_path / "copy"))
    whole = models.load(folder)
    corrupt_weights(folder)
    assert models.refusal(FailedPrecondition, whole).reason == "SOURCE_CHANGED"
    folder.rename(tmp_path / "elsewhere")
    assert models.refusal(FailedPrecondition, whole).reason == "SOURCE_UNREADABLE"


@pytest.mark.slow
@pytest.mark.parametrize(("saved", "step"), [(False, "compress"), (True, "inspect")])
def test_cancelling_leaves_nothing(
    models: Models, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path, saved: bool, step: str
) -> None:
    """Whether it comes before or after the heads are removed."""
    whole = models.load(bert)
    there, go = threading.Event(), threading.Event()
    original: Callable[..., Any] = getattr(loading, step)

    def held(*arguments: Any) -> Any:
        there.set()
        assert go.wait(granted(30))
        return original(*arguments)

    monkeypatch.setattr(loading, step, held)

    async def cancel() -> None:
        call = asyncio.create_task(models.registry.prune(whole, "pruned", PARTS, tmp_path / "saved" if saved else None, ignore))
        await asyncio.to_thread(there.wait, granted(30))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    models.wait(cancel())
    assert [entry.spec.name for entry in models.registry.entries()] == ["models/whole"]
    go.set()
    join_loads()
    assert list(tmp_path.iterdir()) == [temporary]
    assert not list(temporary.iterdir())


def test_what_can_not_be_read_is_not_kept(models: Models, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = models.load(bert)

    def too_large(*_: object, **__: object) -> None:
        raise FailedPrecondition("does not fit", "DEVICE_MEMORY")

    monkeypatch.setattr(runtimes, "load_encoder", too_large)
    assert models.refusal(FailedPrecondition, whole, PARTS, tmp_path / "saved").reason == "DEVICE_MEMORY"
    assert not (tmp_path / "saved").exists()
