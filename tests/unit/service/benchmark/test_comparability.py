"""Which form each model of a comparison runs in, and what it is compared with."""

import asyncio
import threading

import pytest
from bertscope_service.benchmark.building import Building, Check
from bertscope_service.benchmark.comparability import Form, Pairing, Subject, as_loaded, pair_alike

from tests.support.patience import granted


def form(runtime: str, precision: str = "fp32", device: str = "cpu") -> Form:
    return Form(runtime, precision, device)


TORCH = Subject("torch", form("torch"), False, True, True)
ONNX = Subject("onnx", form("onnx"), False, True, True)
HALF = Subject("loaded in bf16", form("torch", "bf16"), False, True, True)
HALVED = Subject("made bf16", form("torch", "bf16"), True, True, False)
INTEGERS = Subject("int8 of torch", form("torch", "int8"), True, True, False)
GRAPHS = Subject("int8 graphs", form("onnx", "int8"), True, False, False)
FOREIGN = Subject("another program's graph", form("onnx"), False, False, False)
DROPS = Subject("drops tokens", form("torch"), False, True, False)


def pair(*models: Subject, runtime: str = "", fixed: tuple[int, ...] = ()) -> Pairing:
    return pair_alike(models, 0, runtime or models[0].form.runtime, fixed)


@pytest.mark.parametrize(
    ("models", "forms"),
    [
        ((TORCH, ONNX, TORCH), [form("torch")] * 3),
        ((ONNX, TORCH, FOREIGN), [form("onnx")] * 3),
        ((TORCH, HALF), [form("torch"), form("torch")]),
        ((HALF, TORCH, ONNX), [form("torch", "bf16")] * 3),
        # What was done to a model stays: it is what is compared.
        ((TORCH, HALVED, INTEGERS), [form("torch"), form("torch", "bf16"), form("torch", "int8")]),
        ((INTEGERS, ONNX), [form("torch", "int8"), form("torch")]),
        ((ONNX, GRAPHS), [form("onnx"), form("onnx", "int8")]),
    ],
)
def test_all_run_by_the_baselines_library_in_its_number_format(models: tuple[Subject, ...], forms: list[Form]) -> None:
    found = pair(*models)
    assert (found.forms, found.references, found.compared) == (forms, [], [0] * len(models))


@pytest.mark.parametrize(
    ("models", "forms", "references", "compared"),
    [
        ((ONNX, TORCH, INTEGERS), ["onnx", "onnx", "torch"], [form("torch")], [0, 0, 3]),
        ((TORCH, GRAPHS, ONNX), ["torch", "onnx", "torch"], [form("onnx")], [0, 3, 0]),
        ((ONNX, DROPS, HALVED), ["onnx", "torch", "torch"], [form("torch")], [0, 3, 3]),
        ((HALF, FOREIGN), ["torch", "onnx"], [form("onnx")], [0, 2]),
        # A baseline of graphs alone has no other form.
        ((FOREIGN, HALVED), ["onnx", "torch"], [], [0, 0]),
        ((INTEGERS, GRAPHS), ["torch", "onnx"], [], [0, 0]),
    ],
)
def test_what_cannot_run_as_the_baseline_is_compared_with_the_baseline_in_its_own_form(
    models: tuple[Subject, ...], forms: list[str], references: list[Form], compared: list[int]
) -> None:
    found = pair(*models)
    assert [one.runtime for one in found.forms] == forms
    assert (found.references, found.compared) == (references, compared)


def test_a_library_may_be_asked_for() -> None:
    found = pair(TORCH, ONNX, INTEGERS, runtime="onnx")
    assert (found.forms, found.references) == ([form("onnx"), form("onnx"), form("torch", "int8")], [form("torch")])
    half = pair(HALF, TORCH, runtime="onnx")
    assert half.forms == [form("onnx"), form("onnx")]


def test_models_that_cannot_be_copied_run_as_they_are_loaded() -> None:
    found = pair(ONNX, TORCH, fixed=(1,))
    assert (found.forms, found.references, found.compared) == ([form("onnx"), form("torch")], [form("torch")], [0, 2])
    both = pair(ONNX, TORCH, fixed=(0, 1))
    assert (both.forms, both.references, both.compared) == ([form("onnx"), form("torch")], [], [0, 0])


def test_as_loaded_nothing_is_copied() -> None:
    found = as_loaded([TORCH, ONNX, GRAPHS], 1)
    assert (found.forms, found.references, found.compared) == ([TORCH.form, ONNX.form, GRAPHS.form], [], [1, 1, 1])


class Builds:
    """Builds that wait to be let through, and know how many of them were at work at once."""

    def __init__(self) -> None:
        self.at_once = self.most = self.begun = 0
        self.gate = threading.Event()
        self.begins = threading.Semaphore(0)
        self._lock = threading.Lock()

    def __call__(self, check: Check) -> str:
        with self._lock:
            self.begun += 1
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.begins.release()
        try:
            assert self.gate.wait(granted(10))
            check()
            return "built"
        finally:
            with self._lock:
                self.at_once -= 1


@pytest.mark.asyncio
async def test_an_abandoned_build_holds_the_next_one_back_until_it_has_ended() -> None:
    """Callers that cancel again and again have one model built at a time."""
    building, builds = Building(), Builds()
    first = asyncio.create_task(building.do(builds))
    await asyncio.to_thread(builds.begins.acquire)
    others = [asyncio.create_task(building.do(builds)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in (first, *others[:-1]):
        task.cancel()
    done, _ = await asyncio.wait((first, *others[:-1]))
    assert all(task.cancelled() for task in done)
    assert builds.begun == 1
    builds.gate.set()
    assert await others[-1] == "built"
    assert (builds.most, builds.begun) == (1, 2)
