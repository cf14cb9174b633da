"""What a registry holds of a model that was replaced: all that its calls need, and only as long as they run."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from bertscope_service.models import registry as registry_module
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.registry import Registry
from bertscope_service.observability.metrics import Metrics

pytestmark = pytest.mark.asyncio
SPEC = LoadSpec("x", "somewhere", "cpu", "fp32")


class FakeEncoder:
    """An encoder of a runtime without gradients, or of one that has them."""

    def __init__(self, runtime: str = "onnx") -> None:
        self.runtime = runtime
        self.precision = "fp32"
        self.device = "cpu"


def make(metrics: Metrics) -> Registry:
    """Reads models whose weights are called v1, v2 and so on."""
    read: list[int] = []

    def load(spec: LoadSpec, report: Callable[[Any], None]) -> LoadedModel:
        read.append(len(read) + 1)
        fake: Any = FakeEncoder()
        source: Any = "a source"
        tokenizer: Any = None
        return LoadedModel(spec, fake, tokenizer, f"v{read[-1]}", 100, source=source)

    async def warm_up(loaded: LoadedModel) -> LoadedModel:
        return loaded

    return Registry(metrics, load, warm_up)


@pytest.fixture
def read_again(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, FakeEncoder]]:
    """What was read for its gradients: the digest that was asked for, and what came of it."""
    found: list[tuple[str, FakeEncoder]] = []

    def gradient_encoder(source: object, digest: str, asked: object) -> FakeEncoder:
        found.append((digest, FakeEncoder("torch")))
        return found[-1][1]

    monkeypatch.setattr(registry_module, "gradient_encoder", gradient_encoder)
    return found


def ignore(_: object) -> None:
    pass


async def test_gradients_of_a_model_that_was_replaced_are_its_own_and_go_with_its_last_call(
    read_again: list[tuple[str, FakeEncoder]],
) -> None:
    metrics = Metrics()
    registry = make(metrics)
    await registry.load(SPEC, ignore)
    with registry.use("models/x") as old:
        new = await registry.load(SPEC, ignore, replacing=True)
        assert (old.weights_digest, new.weights_digest) == ("v1", "v2")
        for _ in range(2):
            assert (await registry.with_gradients(old)).weights_digest == "v1"
        assert (await registry.with_gradients(new)).weights_digest == "v2"
        assert [digest for digest, _ in read_again] == ["v1", "v2"]
        assert registry.find("").loaded is new
        assert state(metrics, "ready") == state(metrics, "unloading") == 1
    gone, gradients = weakref.ref(old), weakref.ref(read_again.pop(0)[1])
    del old
    for _ in range(10):
        await asyncio.sleep(0)  # what waits for the last call runs
    assert state(metrics, "unloading") == 0
    gc.collect()
    assert gone() is None
    assert gradients() is None
    assert (await registry.with_gradients(new)).encoder is read_again[0][1]


def state(metrics: Metrics, name: str) -> float | None:
    return metrics.registry.get_sample_value("bertscope_models", {"state": name})
