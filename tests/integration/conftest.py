"""Fixtures: tiny checkpoints, and one server that hosts them for all tests that leave it as they found it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope_service.api import benchmark_requests
from bertscope_service.api import studies as studies_api
from bertscope_service.benchmark import studies
from bertscope_service.benchmark.inputs import Measurement
from bertscope_service.benchmark.shapes import Transformer
from bertscope_service.benchmark.systems import Recipe, System
from bertscope_service.checkpoints.steps import KeepLayers, OnnxExport, Step
from bertscope_service.encoders.onnx.helper_main import IDLE_SECONDS
from bertscope_service.encoders.onnx.helper_process import helper
from bertscope_service.models import timed_runs

from tests.support.compressed import make
from tests.support.exports import made_once
from tests.support.harness import Host, LoopThread, launched
from tests.support.held_loop import HeldLoop, watched
from tests.support.patience import granted
from tests.support.sites import Site
from tests.support.tiny import write_lab

GOOD_TEXT = "Paris is the capital of [MASK]."


@pytest.fixture(scope="session", autouse=True)
def lasting_helper() -> Iterator[None]:
    """Keeps the helper process once it runs: it ends after a while without a task, and takes ten seconds to start."""
    over = threading.Event()

    def remind() -> None:
        while not over.wait(IDLE_SECONDS / 4):
            helper._send({"number": -1}, [], start=False)  # ends a task that does not exist

    threading.Thread(target=remind, name="lasting-helper", daemon=True).start()
    yield
    over.set()


@pytest.fixture(scope="session")
def quantised(checkpoint: Callable[[str], Path], export_cache: Path) -> Callable[[Step], Path]:
    """By a step, the folder of graphs of BERT's first two layers that it was applied to. Nobody may change it."""

    def folder(step: Step) -> Path:
        steps = (KeepLayers((0, 1)), OnnxExport(), step)
        return made_once(
            export_cache.with_name("quantised") / str(step), lambda target: make(checkpoint("bert"), target, *steps)
        )

    return folder


@pytest.fixture(scope="session")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def held_loop(loop: LoopThread) -> Iterator[HeldLoop]:
    """Watches the loop of all servers here."""
    with watched(loop.loop) as found:
        yield found


@pytest.fixture(autouse=True)
def never_held(held_loop: HeldLoop) -> Iterator[None]:
    """Fails a test in which a callback held the loop of a server."""
    before = len(held_loop.holds)
    yield
    assert held_loop.holds[before:] == []


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders by model id: two architectures, and one without a masked-LM head."""
    return write_lab(tmp_path_factory.mktemp("checkpoints"), "bert", "roberta", "headless")


@pytest.fixture(scope="session")
def host(loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[Host]:
    """Hosts models/bert (the default), models/roberta and models/headless."""
    with launched(loop, model=[f"{name}={folder}" for name, folder in checkpoints.items()]) as running:
        yield running


@pytest.fixture(scope="session")
def sorters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders by model id: classifiers, a regression, and a model that answers questions; see `LAB`."""
    return write_lab(tmp_path_factory.mktemp("sorters"), "sorter", "distilled", "rater", "topics", "tagger", "answerer")


@pytest.fixture(scope="session")
def lab(loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path]) -> Iterator[Host]:
    """Hosts models/bert (the default), models/roberta and models/headless, and models/sorter and models/distilled, which
    classify, models/rater, which gives values, models/topics, which is multi-label, models/tagger, which labels words, and
    models/answerer, which answers questions."""
    with launched(loop, model=[f"{name}={folder}" for name, folder in (checkpoints | sorters).items()]) as running:
        yield running


@pytest.fixture
def launch(loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[Callable[..., Host]]:
    """Starts servers of a test's own, with models/bert unless told otherwise."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Host:
            settings.setdefault("model", [f"bert={checkpoints['bert']}"])
            return stack.enter_context(launched(loop, **settings))

        yield start


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Certificates of a server of one module's own, which the module may renew."""
    return Site(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def mutual_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The same of a server that asks for its clients' certificates."""
    return Site(tmp_path_factory.mktemp("mutual"))


@pytest.fixture(scope="session")
def check_alive() -> Callable[[Host], None]:
    """Asks a good question and fails if it is not answered."""
    request = cloze.FillMaskRequest(texts=[GOOD_TEXT], top_k=1)

    def check(running: Host) -> None:
        reply = running.cloze.FillMask(request, timeout=granted(20))
        assert len(reply.results) == 1
        assert 0 < reply.results[0].masks[0].predictions[0].probability <= 1

    return check


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a benchmark asks for, once it has been checked it takes a moment, and what it builds is tiny."""
    parse, choose, runtime = (benchmark_requests.parse_measurement, studies_api.choose_systems, studies_api.parse_runtime)
    tiny = Transformer("bert", 1, 16, 24, 2, vocabulary=100)

    def measurement(*args: Any) -> Measurement:
        return replace(parse(*args), max_seconds=0.02)

    def systems(names: Sequence[str], *, heavy: bool) -> tuple[System, ...]:
        found = choose(names, heavy=heavy)[:2]
        return tuple(system if system.recipe is None else replace(system, recipe=Recipe(tiny)) for system in found)

    def torch_alone(*args: Any) -> str:
        runtime(*args)
        return "torch"

    for module in (benchmark_requests, studies_api):
        monkeypatch.setattr(module, "parse_measurement", measurement)
    monkeypatch.setattr(studies_api, "choose_systems", systems)
    monkeypatch.setattr(studies_api, "parse_runtime", torch_alone)
    monkeypatch.setattr(studies, "BASELINES", {"BERT-base": tiny})
    monkeypatch.setattr(timed_runs, "WARM_UP_SECONDS", 0.001)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Sources that look like hub ids are not asked for."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    yield
